"""Which outputs may be wrapped."""

import pytest

from selfattn.wrapped import has_columns, marked


@pytest.mark.parametrize(
    "text",
    [
        "   d  top weight\n 16      0.5976\n",
        "tensor([[0.70, 0.00],\n        [0.00, 1.00]])\n",
        "raw      0.0024\ndivided  0.9546\n",
    ],
)
def test_columns_are_kept(text):
    assert has_columns(text)


@pytest.mark.parametrize(
    "text",
    [
        "torch.Size([1, 5, 5]) tensor([1.2442, 1.1785, 1.1949, 0.5581, 0.8243])\n",
        "pad-content: fault, moved 104\n    where: form training mode\n",
        "True\n",
        "",
    ],
)
def test_sentences_are_wrapped(text):
    assert not has_columns(text)


def test_marks_are_read_as_the_text_they_stand_for():
    block = '<div class="language-text highlight"><pre id="a"><code>{}</code></pre></div>'
    wrapped = marked(block.format("<span>a</span> &lt;b&gt;"))
    assert 'class="language-text highlight sentences"' in wrapped
    kept = block.format("a<span> </span><span> </span>b")
    assert marked(kept) == kept
