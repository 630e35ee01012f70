"""The pages of the probes: every probe has its section, every warning of the lesson its probe."""

import re
from pathlib import Path

import pytest

from selfattn.figures.faults import SECTIONS, cell, faults_by_probes
from selfattn.probes.faulty import FAULTS
from selfattn.probes.functions.run import PROBES
from selfattn.probes.gallery import table
from selfattn.probes.report import Finding
from selfattn.probes.run import catalog

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
LIST = (DOCS / "probe-list.md").read_text(encoding="utf-8")
GALLERY = (DOCS / "fault-gallery.md").read_text(encoding="utf-8")
BY_NAME = {one.name: one for one in PROBES}
SCRIPTS = [*(ROOT / "snippets").glob("fault-gallery*.md")]

NO_PROBE = {
    "write `.T` on a batch": "it raises, or is a matter of shapes",
    "stop at one vector in all roles": "a choice, no fault",
    "read meaning into untrained weights": "a reader's fault",
    "use one projection for both queries and keys": "a choice, no fault",
    "take a near one-hot row for certainty": "a reader's fault",
    "put another number under the root": "seen with q, k and v in hand only",
    "trust a shape": "a tester's fault",
    "compare on one short query": "a tester's fault",
    "raise the longest length without counting": "a matter of memory",
    "take parameters for memory": "a matter of memory",
}
"""The lesson's other warnings, and why no layer of the gallery ignores them."""

LESSON = (
    "average",
    "projections",
    "scale",
    "padding-mask",
    "causal-mask",
    "order",
    "pytorch",
    "square",
)


def sections() -> dict[str, str]:
    """Give the text of every section of the list by its heading."""
    parts = re.split(r"^### (.+)$", LIST, flags=re.MULTILINE)
    return {
        name: text.split("\n## ")[0] for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def test_every_probe_has_one_section_and_no_section_is_of_none() -> None:
    headings = re.findall(r"^### (.+)$", LIST, flags=re.MULTILINE)
    assert len(headings) == len(set(headings))
    assert set(headings) == {*catalog(), *BY_NAME}


@pytest.mark.parametrize("name", [*catalog(), *(BY_NAME.keys() - catalog().keys())])
def test_a_section_says_all_that_there_is_to_say(name: str) -> None:
    text = sections()[name]
    for part in ("**Changes**", "**Finds**", "**Cannot**", "**Tolerance:**", "Lesson: ["):
        assert part in text
    pages = {catalog()[name].page} if name in catalog() else {BY_NAME[name].page}
    assert re.findall(r"Lesson: \[[^]]+\]\(([\w-]+)\.md\)", text) == [*pages]
    assert all((DOCS / f"{page}.md").exists() for page in pages)


def test_every_fault_names_a_page_that_warns() -> None:
    for fault in FAULTS:
        assert "## Don't" in (DOCS / f"{fault.page}.md").read_text(encoding="utf-8")


def test_every_fault_is_in_one_table_of_the_gallery() -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in SCRIPTS)
    counts = re.findall(
        r"^(triangles|empty|caches|masks|weights|order|calls|learning): (\d+)$", code, re.M
    )
    assert sum(int(count) for _, count in counts) == len(FAULTS)


def test_every_warning_of_the_lesson_has_its_probe_or_a_reason() -> None:
    said = []
    for page in LESSON:
        text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
        said += [(page, words) for words in re.findall(r"^- \*\*Don't (.+?)\.\*\*", text, re.M)]
    code = (ROOT / "snippets" / "fault-gallery.md").read_text(encoding="utf-8")
    shown = re.findall(r'^    \("([\w-]+)", "([^"]+)",', code, flags=re.MULTILINE)
    assert {page for page, _ in shown} <= set(LESSON)
    assert sorted(said) == sorted(
        [*shown, *((page, words) for page, words in said if words in NO_PROBE)]
    )
    assert set(NO_PROBE) <= {words for _, words in said}


def test_a_report_names_the_section_and_the_page() -> None:
    text = str(Finding("order", "fault", 1.0, 0.1, page="order"))
    assert text.splitlines()[-1].strip() == "lesson: order; this probe: probe-list#order"


def test_a_cell_says_its_verdict_in_words() -> None:
    words = {"ok": "ok", "not applicable": "not", "cannot tell": "unknown"}
    for verdict, sign in words.items():
        said = f'<td class="{sign}"><span>{verdict}</span></td>'
        assert cell(Finding("order", verdict, 1e-7, 1e-6)) == said
        assert cell(Finding("order", verdict, 1e-7, 1e-6), named=True) == said
    assert cell(Finding("order", "fault", 0.1234, 1e-6)).endswith("<b>fault</b> 0.12</td>")
    assert cell(Finding("order", "fault", 12345.0, 1e-6)).endswith("<b>fault</b> 12,000</td>")
    assert cell(Finding("order", "fault", 1e-7, 1e-6)).endswith("<b>fault</b> under 0.0001</td>")
    assert cell(Finding("order", "fault", 0.0, 1e-6)).endswith("<b>fault</b> 0</td>")
    assert cell(Finding("order", "fault", float("nan"), 0.0)).endswith("<b>fault</b> nan</td>")
    assert cell(Finding("order", "fault", 1.0), named=True) == (
        '<td class="fault"><a href="probe-list.html#order">order</a><b>fault</b> 1</td>'
    )


def test_a_column_for_each_probe_that_finds_something_and_a_count_of_the_others() -> None:
    def row(**verdicts: str) -> dict[str, Finding]:
        return {name: Finding(name, verdict, 1.0) for name, verdict in verdicts.items()}

    html = faults_by_probes(
        {
            "a < b": row(order="fault", shapes="ok", scale="not applicable"),
            "two": row(order="ok", shapes="ok", scale="cannot tell"),
        },
        "Some faults.",
    )
    order = '<a href="probe-list.html#order">order</a>'
    columns = re.findall(r'<th scope="col"[^>]*>(.*?)</th>', html)
    assert columns == ["fault", order, "the other 2"]
    assert re.findall(r'<th scope="row"[^>]*>(.*?)</th>', html) == ["a &lt; b", "two"]
    cells = re.findall(r"<td[^>]*>(.*?)</td>", html)
    assert cells[0] == f"{order}<b>fault</b> 1"
    assert [re.sub(r"<.*?>", "", one) for one in cells[1:]] == [
        "1\N{NO-BREAK SPACE}ok, 1\N{NO-BREAK SPACE}not applicable",
        "ok",
        "1\N{NO-BREAK SPACE}ok, 1\N{NO-BREAK SPACE}cannot tell",
    ]
    assert SECTIONS.startswith("probe-list.html#")


def test_a_table_says_its_roles_which_a_block_would_lose() -> None:
    html = faults_by_probes({"one": {"order": Finding("order", "fault", 1.0)}}, "A fault.")
    roles = {"table": "table", "thead": "rowgroup", "tbody": "rowgroup", "tr": "row", "td": "cell"}
    found = re.findall(r"<(table|thead|tbody|tr|td|th)\b([^>]*)>", html)
    for tag, attributes in found:
        if tag == "th":
            role = "columnheader" if 'scope="col"' in attributes else "rowheader"
        else:
            role = roles[tag]
        assert f'role="{role}"' in attributes, tag
    assert {tag for tag, _ in found} == {*roles, "th"}


def test_nearly_all_faults_return_the_right_shape_each_time() -> None:
    rows = table(only=["shapes"])
    others = [row.fault.what for row in rows if "returned" in row.cells["shapes"].where]
    assert sorted(others) == [
        "mask of one axis too many",
        "mask taken for a triangle",
        "mask without its middle axis",
    ]
    assert len(rows) > 20 * len(others)
    assert "nearly all return the right shape each time" in GALLERY


def test_what_is_live_is_what_the_page_says() -> None:
    script = (ROOT / "snippets" / "probes-live.md").read_text(encoding="utf-8")
    printed = script.split("expected-output-->")[1]
    for line in (
        "MultiheadAttention: empty-rows, empty-gradients",
        "TransformerEncoderLayer: modes, empty-rows",
        "TransformerEncoder: modes",
        "scaled_dot_product_attention: ok",
        "the same with is_causal=True: corner",
    ):
        assert f"\n{line}\n" in printed
    uses = re.findall(r"^[^:]+: [\w-]+, (\w+), [\d.]+$", printed, flags=re.MULTILINE)
    assert uses == ["fault"] * 9
