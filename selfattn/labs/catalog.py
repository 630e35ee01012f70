"""The labs there are, what each one's solution is, and the wrong solutions that have a name."""

from dataclasses import dataclass
from pathlib import Path

from selfattn.fresh.snippet import Snippet, parse

GIVEN = "given"
"""The section of a solution that the learner starts from."""

_PACKAGED = Path(__file__).parent / "solutions"
_IN_PROJECT = Path(__file__).parents[2] / "snippets"


@dataclass(frozen=True)
class Mistake:
    """A well-known wrong solution.

    Attributes:
        name: what it is called, in a few words.
        meaning: what it does, and where to look, without the right answer.
        changes: what to replace in the solution's code, and by what, to make this mistake.
    """

    name: str
    meaning: str
    changes: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Lab:
    """One lab.

    Attributes:
        name: as the commands call it; the learner's file has it too.
        title: what it is about.
        script: the name of its solution among the snippets, and of its page.
        mistakes: those that a check recognises.
        explanation: what the right answers mean; shown after passing.
        follows: what comes next.
    """

    name: str
    title: str
    script: str
    mistakes: tuple[Mistake, ...]
    explanation: str
    follows: str

    def solution(self) -> Snippet:
        """Read the solution: from the project, or from the installed package."""
        folder = _PACKAGED if _PACKAGED.is_dir() else _IN_PROJECT
        return parse(folder / f"{self.script}.md")


_ORDER = (
    "The seed hands out its random numbers in the order in which the layers are made: first the "
    "embedding, then query, key and value."
)

LOOPS = Lab(
    name="loops",
    title="one row of attention by plain loops",
    script="lab-loops",
    mistakes=(
        Mistake(
            "no scale",
            "These weights come from undivided scores. Divide the dot products before the exp.",
            (("sum(products) / math.sqrt(8)", "sum(products)"),),
        ),
        Mistake(
            "the wrong dimension under the root",
            "The scores are divided by the root of the number of tokens. A dot product's spread "
            "grows with the number of its products, and that is another size.",
            (("sum(products) / math.sqrt(8)", "sum(products) / math.sqrt(len(tokens))"),),
        ),
        Mistake(
            "the width without its root",
            "The scores are divided by the width itself, which makes the weights too even.",
            (("sum(products) / math.sqrt(8)", "sum(products) / 8"),),
        ),
        Mistake(
            "the wrong softmax axis",
            "Each share is taken from another total: that of all queries for one key. The total "
            "runs over the keys, and all of card's shares come from the same one.",
            (
                (
                    "row = [power / total for power in powers]",
                    "totals = (q @ k.T / math.sqrt(8)).exp().sum(dim=0).tolist()\n"
                    "row = [power / total for power, total in zip(powers, totals)]",
                ),
            ),
        ),
        Mistake(
            "query and key exchanged",
            "These are the shares of card's key among all queries. Either the loop exchanges the "
            "two, or the layers were made in another order than query, key, value.",
            (
                ("asked = q[place]", "asked = k[place]"),
                ("for offered in k.tolist()", "for offered in q.tolist()"),
            ),
        ),
        Mistake(
            "no root of the larger width",
            "At 512 the scores are divided by the root of 8. The divisor belongs to the width.",
            (("raw / math.sqrt(width)", "raw / math.sqrt(8)"),),
        ),
        Mistake(
            "the row overwritten while it is summed",
            "The total is taken anew for every entry, from a row that is partly divided already. "
            "Take the total once, before the first division.",
            (
                (
                    "row = [power / total for power in powers]",
                    "row = powers\nfor i in range(len(row)):\n    row[i] = row[i] / sum(row)",
                ),
            ),
        ),
        Mistake(
            "the wrong seed order: key before query",
            _ORDER,
            (
                ("query, key, value = (", "key, query, value = ("),
                ("query, key = (", "key, query = ("),
            ),
        ),
        Mistake(
            "the wrong seed order: value before query",
            _ORDER,
            (("query, key, value = (", "value, query, key = ("),),
        ),
        Mistake(
            "the wrong seed order: projections before the embedding",
            _ORDER,
            tuple(
                (f"{embedding}{projections}", f"{projections}{embedding}")
                for embedding, projections in (
                    (
                        "embedding = nn.Embedding(len(vocab), 8, padding_idx=0)\n",
                        "query, key, value = (nn.Linear(8, 8) for _ in range(3))\n",
                    ),
                    (
                        "    embedding = nn.Embedding(len(vocab), width, padding_idx=0)\n",
                        "    query, key = (nn.Linear(width, width) for _ in range(2))\n",
                    ),
                )
            ),
        ),
        Mistake(
            "the wrong seed order: seeded once for both widths",
            "The second width goes on where the first stopped. Seed again before each.",
            (
                ("def largest(width):\n    torch.manual_seed(42)\n", "def largest(width):\n"),
                ("for width in (8, 512):", "torch.manual_seed(42)\nfor width in (8, 512):"),
            ),
        ),
        Mistake(
            "the wrong seed order: no new seed for the widths",
            "The two widths go on where step 2 stopped. Seed again before each.",
            (("def largest(width):\n    torch.manual_seed(42)\n", "def largest(width):\n"),),
        ),
    ),
    explanation=(
        "Each weight is a share: exp makes every score positive, and the total makes the shares "
        "sum to 1. Your loops and one matrix product agree, so attention is nothing more than "
        "this, done for all queries at once. Which token weighs most means nothing yet, as the "
        "projections are random. At width 8 the missing division looks harmless; at 512 it turns "
        "an average into a choice of one token."
    ),
    follows="Next: selfattn lab start masks, where a whole batch is padded.",
)

_GRADIENTS_OFF = "torch.set_grad_enabled(False)\n"
_BY_HAND = """

def attention(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(mask, -torch.inf)
    weights = torch.softmax(scores, dim=-1)
    return weights @ v, weights
"""


def _by_hand(*changes: tuple[str, str]) -> tuple[tuple[str, str]]:
    """Let the solution use an attention function written by hand, with something changed in it."""
    code = _BY_HAND
    for old, new in changes:
        code = code.replace(old, new)
    return ((_GRADIENTS_OFF, _GRADIENTS_OFF + code),)


MASKS = Lab(
    name="masks",
    title="the masks on a batch of real queries",
    script="lab-masks",
    mistakes=(
        Mistake(
            "no mask",
            "The pads take part: their keys are as good as any other while nothing blocks them.",
            (("attention(q, k, v, mask)", "attention(q, k, v)"),),
        ),
        Mistake(
            "no scale",
            "PyTorch's function divides the scores by the root of the width; these outputs come "
            "from undivided ones.",
            _by_hand((" / q.shape[-1] ** 0.5", "")),
        ),
        Mistake(
            "the wrong dimension under the root",
            "The scores are divided by the root of the number of keys, not of the width.",
            _by_hand(("q.shape[-1]", "k.shape[-2]")),
        ),
        Mistake(
            "the width without its root",
            "The scores are divided by the width itself, which makes the weights too even.",
            _by_hand((" ** 0.5", "")),
        ),
        Mistake(
            "the wrong softmax axis",
            "The weights sum to 1 over the queries. They are shares of each query's row, so the "
            "softmax runs over the keys.",
            _by_hand(("dim=-1", "dim=-2")),
        ),
        Mistake(
            "the softmax over the batch",
            "The weights sum to 1 over the queries of the batch, each of which should be alone.",
            _by_hand(("dim=-1", "dim=0")),
        ),
        Mistake(
            "rows masked instead of keys",
            "The mask blocks the rows of the padded queries, so real tokens still look at pads. "
            "Padding is a matter of keys: of columns.",
            (
                ("attention(q, k, v, mask)", "attention(q, k, v, mask.transpose(-2, -1))"),
                ("joined = mask |", "joined = mask.transpose(-2, -1) |"),
            ),
        ),
        Mistake(
            "an inverted mask",
            "The mask lets through what it should block. Its True means: must not look.",
            (
                ("attention(q, k, v, mask)", "attention(q, k, v, ~mask)"),
                ("attention(q, k, v, joined)", "attention(q, k, v, ~joined)"),
            ),
        ),
        Mistake(
            "an inverted mask for PyTorch's function",
            "PyTorch's function attends where its mask is True; ours must not look there.",
            (("attn_mask=~mask", "attn_mask=mask"), ("attn_mask=~joined", "attn_mask=joined")),
        ),
        Mistake(
            "a fill of 0.0",
            "A score of 0 is an ordinary score, and gets an ordinary weight.",
            _by_hand(("-torch.inf", "0.0")),
        ),
        Mistake(
            "the mask after the softmax",
            "The pads' weights are set to 0 after they took their share, so the rows sum to less "
            "than 1.",
            _by_hand(
                ("scores = scores.masked_fill(mask, -torch.inf)", "pass"),
                (
                    "    return",
                    "    if mask is not None:\n        weights = weights * ~mask\n    return",
                ),
            ),
        ),
        Mistake(
            "a triangle off by one: the diagonal blocked",
            "The causal mask blocks every token's own key as well. It begins one above the "
            "diagonal.",
            (("causal_mask(48)", "torch.ones(48, 48, dtype=torch.bool).triu(0)"),),
        ),
        Mistake(
            "a triangle off by one: one token of the future",
            "The causal mask leaves the next token open. It begins one above the diagonal.",
            (("causal_mask(48)", "torch.ones(48, 48, dtype=torch.bool).triu(2)"),),
        ),
        Mistake(
            "a triangle upside down",
            "The causal mask blocks the past and leaves the future open.",
            (("causal_mask(48)", "causal_mask(48).T"),),
        ),
        Mistake(
            "padding_idx forgotten",
            "The pads have an embedding of their own, since nothing told the embedding which id "
            "is padding.",
            (("len(vocab), 32, padding_idx=0", "len(vocab), 32"),),
        ),
    ),
    explanation=(
        "The pads get a weight of exactly 0, so how many there are no longer matters: every query "
        "alone gives what it gives in the batch, up to the last digits, which differ as sums are "
        "grouped differently. One query would have proved little, since a mask that is wrong for "
        "others may be right for it, and == would have failed on those digits. With the joined "
        "mask the first token sees itself alone, so its output is its value."
    ),
    follows="Next: the assignment, which asks what attention buys without positions.",
)

LABS = {lab.name: lab for lab in (LOOPS, MASKS)}
