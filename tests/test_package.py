"""What `import selfattn` costs, and that its `attention` is the function whatever came before."""

import subprocess
import sys

import pytest


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize(
    "module", ["selfattn", "selfattn.corpora", "selfattn.cli", "selfattn.fresh"]
)
def test_import_leaves_torch_alone(module: str) -> None:
    assert python(f"import sys, {module}; print('torch' in sys.modules)") == "False"


@pytest.mark.parametrize(
    "before",
    [
        "",
        "import selfattn.attention",
        "from selfattn.attention import causal_mask",
        "import selfattn.text",
    ],
)
def test_attention_is_the_function(before: str) -> None:
    assert (
        python(f"{before}\nfrom selfattn import attention; print(attention.__name__)")
        == "attention"
    )
    assert python(f"{before}\nimport selfattn; print(callable(selfattn.attention))") == "True"


def test_attention_can_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    import selfattn

    monkeypatch.setattr(selfattn, "attention", "another")
    assert selfattn.attention == "another"


def test_tokenizing_reads_no_queries() -> None:
    code = (
        "from selfattn import corpora\n"
        "corpora.rows = None\n"
        "from selfattn.text import tokenize, vocab, encode\n"
        "print(tokenize('A card!'), vocab['card'], encode('card')[0])"
    )
    assert python(code) == "['a', 'card', '!'] 9 9"


def test_unknown_names_are_attribute_errors() -> None:
    import selfattn
    import selfattn.text

    with pytest.raises(AttributeError, match="selfattn' has no attribute 'atention'"):
        _ = selfattn.atention
    with pytest.raises(AttributeError, match=r"selfattn\.text' has no attribute 'test_set'"):
        _ = selfattn.text.test_set
