import subprocess
import sys
from xml.etree import ElementTree

import markdown
import pytest
from mkdocs.exceptions import BuildError

from selfattn import formulas
from selfattn.formulas import FormulaError, mathml

PAGE = r"""
```math
\frac{\q{Q}\k{K}^\top}{\sqrt{d}}\v{V}
```

As `#!math \sqrt{d}` says.
"""


def render(page):
    fence = {
        "name": "math",
        "class": "formula",
        "format": formulas.display,
        "validator": formulas.no_options,
    }
    span = {"name": "math", "class": "formula", "format": formulas.inline}
    return markdown.markdown(
        page,
        extensions=["pymdownx.highlight", "pymdownx.superfences", "pymdownx.inlinehilite"],
        extension_configs={
            "pymdownx.superfences": {"custom_fences": [fence]},
            "pymdownx.inlinehilite": {"custom_inline": [span]},
        },
    )


def test_a_page_gets_a_block_and_a_span():
    html = render(PAGE)
    assert html.count("<math ") == 2
    assert '<math display="block">' in html
    assert (
        '<math display="inline"><mrow><msqrt><mrow><mi>d</mi></mrow></msqrt></mrow></math>' in html
    )
    assert '<div class="formula"' in html
    assert "\\" not in html


def test_parts_of_a_block_may_stand_below_each_other():
    html = render("```math\na = b, \\qquad c = d\n```\n")
    assert html.count('<math display="block">') == 2
    assert html.count('<div class="formula"') == 1
    assert "mspace" not in html


def test_query_key_and_value_have_their_classes():
    tree = ElementTree.fromstring(mathml(r"\q{Q}\k{K}^\top\v{V}_j"))
    coloured = {row.get("class"): "".join(row.itertext()) for row in tree.iter("mrow")}
    assert {name: coloured[name] for name in "qkv"} == {"q": "Q", "k": "K", "v": "V"}


@pytest.mark.parametrize(
    ("source", "text"),
    [("a < b", "a<b"), ("a > b", "a>b"), (r"\text{a<b}", "a<b"), (r"\{i, j\}", "{i,j}")],
)
def test_signs_of_markup_are_escaped(source, text):
    assert "".join(ElementTree.fromstring(mathml(source)).itertext()) == text


def test_an_operator_name_has_the_spacing_of_a_function():
    assert "<mi>softmax</mi>" in mathml(r"\operatorname{softmax}(x)")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (r"\frac{1", "the braces { and } do not pair"),
        ("}{", "the braces { and } do not pair"),
        (r"\sofmax x", r"the command \\sofmax is unknown"),
        (r"\end{matrix}", r"the command \\end\{matrix\} is unknown"),
        ("a & b", "an & stands outside a matrix"),
        (r"\left( x", "latex2mathml answered ExtraLeftOrMissingRightError"),
        ("x_{}^", "latex2mathml answered"),
        ("", "latex2mathml answered NoAvailableTokensError"),
    ],
)
def test_a_bad_formula_is_refused(source, reason):
    with pytest.raises(FormulaError, match=f"Cannot make MathML of the formula .*{reason}"):
        mathml(source)


@pytest.mark.parametrize("page", ["```math\n\\frac{1\n```", "See `#!math \\frac{1`."])
def test_no_extension_swallows_the_error(page):
    with pytest.raises(FormulaError):
        render(page)


def test_a_fence_with_options_is_refused():
    with pytest.raises(FormulaError, match=r"given the options \{'title': 'x'\} but takes none"):
        render('```math title="x"\nx\n```')


def test_a_bad_formula_ends_a_quiet_build(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# A\n\n```math\n\\sofmax\n```\n")
    (tmp_path / "mkdocs.yml").write_text(
        "site_name: A\n"
        "markdown_extensions:\n"
        "  - pymdownx.superfences:\n"
        "      custom_fences:\n"
        "        - name: math\n"
        "          class: formula\n"
        "          format: !!python/name:selfattn.formulas.display\n"
    )
    build = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "-q", "-f", str(tmp_path / "mkdocs.yml")],
        capture_output=True,
        text=True,
    )
    assert build.returncode == 1
    assert "index.md" in build.stderr
    assert "\\sofmax is unknown" in build.stderr
    assert "Traceback" not in build.stderr
    assert issubclass(FormulaError, BuildError)
