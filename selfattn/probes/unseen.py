"""What no black box can see, and why: faults that change nothing an outsider could call wrong."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Unseen:
    """A fault that the probes of layers miss.

    Attributes:
        what: the fault, in a few words.
        why: why nobody can see it from outside.
        with_qkv: the probe of `probe_attention` that sees it with queries, keys and values in
            hand; "" if there is none.
    """

    what: str
    why: str
    with_qkv: str = ""


UNSEEN: tuple[Unseen, ...] = (
    Unseen(
        "softmax over the queries, without a mask",
        "weights sum to 1 over another axis; equal tokens, doubled sequences and permutations "
        "change nothing",
        "softmax-axis",
    ),
    Unseen(
        "a scale under the root of all heads' width",
        "a constant factor that the weights could have learned; level over widths",
        "scale",
    ),
    Unseen(
        "key heads tiled, not repeated",
        "a layer as good as the right one, until it loads trained weights",
        "group-map",
    ),
    Unseen(
        "a row without a key that averages all values",
        "it is finite, and at a place that nobody should read",
        "empty-row",
    ),
    Unseen(
        "two finite fills added",
        "only rows of pads before the first token are wrong, and nobody should read them",
    ),
    Unseen(
        "padded rows that differ between modes",
        "nobody should read them either; a mean over all rows is seen",
    ),
    Unseen(
        "a softmax over heads and keys, inside a block",
        "with one token the block is a function of that token, and so is a gate; with more, the "
        "share of a head is too",
    ),
    Unseen(
        "weights that do not sum to 1, with positions added to the tokens",
        "copies of a token rightly differ by their positions, and a row with one key alone gives "
        "it weight 1 either way",
        "softmax-axis",
    ),
)
"""All that is known."""
