"""Attention functions: with queries, keys and values in hand, more can be seen than from outside.

With one-hot values the output *is* the weights, so the function itself tells what it weighs how.
Axes: queries `[batch, heads, queries, dim]`, keys and values `[batch, key_heads, keys, dim]`; for
a function without heads, all without the second axis.
"""
