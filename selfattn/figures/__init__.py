"""Figures as text: pure functions from numbers and labels to HTML or SVG.

Import them from the modules: what changes in one then runs only the scripts again that use it.
"""
