"""What a finger and a small screen need, and what a wide table needs of a wide one."""

import pytest

PHONE = {"width": 360, "height": 740}
HEADER = 48
"""The site's own header, in pixels: it stays in view."""
TARGET = 24
"""The least height of what a finger is to hit: WCAG 2.2, success criterion 2.5.8."""

# Words of tables that stand on more than one line.
BROKEN = """(selector) => {
    const broken = []
    for (const cell of document.querySelectorAll(selector)) {
        if (!cell.checkVisibility()) continue
        const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT)
        while (texts.nextNode()) {
            for (const word of texts.currentNode.data.matchAll(/[\\p{L}\\p{N}_]+/gu)) {
                const range = document.createRange()
                range.setStart(texts.currentNode, word.index)
                range.setEnd(texts.currentNode, word.index + word[0].length)
                if (range.getClientRects().length > 1) broken.push(word[0])
            }
        }
    }
    return broken
}"""

FAULTS = """() => [...document.querySelectorAll('table.faults:has(.rest)')].flatMap((table) => {
    const heads = [...table.querySelectorAll('thead th')].map((head) => head.textContent)
    return [...table.querySelectorAll('tbody tr')].map((row) => [...row.cells].slice(1).map(
        (cell, i) => [cell.textContent, heads[i + 1], cell.checkVisibility(), cell.innerText]))
})"""


@pytest.fixture
def phone(on_disk):
    on_disk.page.set_viewport_size(PHONE)
    return on_disk


@pytest.mark.parametrize("width", [960, 1220, 1280, 1600])
def test_no_table_of_faults_is_cut(on_disk, width):
    on_disk.page.set_viewport_size({"width": width, "height": 900})
    on_disk.open("fault-gallery")
    boxes = on_disk.page.evaluate(
        """[...document.querySelectorAll('figure.faults')].map((figure) =>
            [figure.querySelector('table').offsetWidth, figure.clientWidth])"""
    )
    assert len(boxes) > 7
    assert all(table <= room for table, room in boxes), boxes
    assert on_disk.page.evaluate(BROKEN, ".faults th") == []


def test_the_header_of_a_long_table_stays_in_view(on_disk):
    on_disk.page.set_viewport_size({"width": 1280, "height": 900})
    on_disk.open("fault-gallery")
    tops = on_disk.page.evaluate(
        """[...document.querySelectorAll('table.faults')].map((table) => {
            const rows = table.querySelectorAll('tbody tr')
            if (rows.length < 9) return null
            scrollTo(0, rows[6].getBoundingClientRect().top + scrollY - 200)
            return table.querySelector('thead th').getBoundingClientRect().top
        }).filter((top) => top !== null)"""
    )
    assert len(tops) >= 3
    assert tops == pytest.approx([HEADER] * len(tops), abs=1)


def test_a_phone_shows_the_probes_that_found_a_fault_and_their_names(phone):
    phone.open("fault-gallery")
    rows = phone.page.evaluate(FAULTS)
    assert len(rows) > 60
    for row in rows:
        seen = [cell for cell in row if cell[2]]
        assert seen == [cell for cell in row if "fault" in cell[0].split(cell[1])[-1]]
        assert seen
        for _, probe, _, text in seen:
            assert text.split()[:2] == [probe, "fault"]
            assert len(text.split()) >= 3


def test_five_tokens_and_their_padding_are_in_view(phone):
    phone.open("index")
    hidden = phone.page.evaluate(
        "[...document.querySelectorAll('.heat-scroll')].map((b) => b.scrollWidth - b.clientWidth)"
    )
    assert hidden == [0, 0]


def test_nothing_shows_beside_a_column_that_stays(phone):
    phone.page.set_viewport_size({"width": 240, "height": 740})
    phone.open("index")
    gaps = phone.page.evaluate(
        """[...document.querySelectorAll('.heat-scroll')].map((box) => {
            box.scrollLeft = 60
            const stays = box.querySelector('tbody th').getBoundingClientRect()
            return [box.scrollLeft, stays.left - box.getBoundingClientRect().left]
        }).filter(([scrolled]) => scrolled > 20)"""
    )
    assert gaps
    assert [gap for _, gap in gaps] == pytest.approx([0] * len(gaps), abs=0.01)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_edge_of_code_is_shaded_where_more_is_hidden(phone, scheme):
    phone.page.emulate_media(color_scheme=scheme)
    phone.open("average")
    code = phone.page.locator(".highlight pre > code").first
    assert code.evaluate("(box) => box.scrollWidth > box.clientWidth + 20")
    # Nothing but the ground and its shade is left to see.
    code.evaluate("(box) => { for (const part of box.children) part.style.visibility = 'hidden' }")
    code.evaluate("(box) => { box.style.color = 'transparent' }")
    at_start = code.screenshot()
    code.evaluate("(box) => { box.scrollLeft = box.scrollWidth }")
    at_end = code.screenshot()
    code.evaluate("(box) => { box.style.backgroundImage = 'none' }")
    plain = code.screenshot()
    assert len({at_start, at_end, plain}) == 3
    phone.page.emulate_media(color_scheme="light")


def test_code_can_be_copied_on_a_phone_and_the_button_hides_none_of_it(phone):
    phone.open("average")
    phone.scroll()
    phone.page.wait_for_function(
        "[...document.querySelectorAll('.language-python pre')].every("
        "    (block) => block.querySelector('.md-code__button'))"
    )
    buttons = phone.page.evaluate(
        """[...document.querySelectorAll('.language-python pre')].map((block) => {
            const button = block.querySelector('.md-code__button').getBoundingClientRect()
            const code = block.querySelector('code').getBoundingClientRect()
            return [button.width, button.height, code.top - button.bottom]
        })"""
    )
    assert len(buttons) > 3
    for width, height, below in buttons:
        assert min(width, height) >= TARGET
        assert below >= 0


@pytest.mark.parametrize(
    ("name", "targets"),
    [
        ("scale", ".predict, .mark label, .frames label"),
        ("progress", ".settings label"),
        ("fault-gallery", ".faults a"),
        ("scripts", "td > a:only-child"),
    ],
)
def test_a_finger_finds_it(phone, name, targets):
    phone.open(name)
    phone.page.locator(targets.split(", ")[-1]).first.wait_for()
    heights = phone.page.evaluate(
        """(targets) => [...document.querySelectorAll(targets)].filter((one) =>
            one.checkVisibility()).map((one) => one.getBoundingClientRect().height)""",
        targets,
    )
    assert heights
    assert min(heights) >= TARGET


@pytest.mark.parametrize("name", ["scale", "padding-mask"])
def test_a_picture_and_its_buttons_are_in_view_together(phone, name):
    phone.open(name)
    for section in phone.page.locator("section.frames").all():
        for button in section.locator("input").all():
            button.check()
            assert section.bounding_box()["height"] <= PHONE["height"] - HEADER


@pytest.mark.parametrize("name", ["projections", "order"])
def test_the_smallest_phone_scrolls_a_picture_and_not_the_page(phone, name):
    phone.page.set_viewport_size({"width": 320, "height": 640})
    phone.open(name)
    for button in phone.page.locator(".frames input").all():
        button.check()
        assert phone.page.evaluate("document.documentElement.scrollWidth") == 320


@pytest.mark.parametrize("name", ["cheat-sheet", "average", "causal-mask", "scripts"])
def test_no_word_of_a_table_breaks_on_a_phone(phone, name):
    phone.open(name)
    phone.page.evaluate("document.querySelectorAll('details').forEach((one) => one.open = true)")
    assert phone.page.locator("article td").count() > 0
    assert (
        phone.page.evaluate(BROKEN, "article table:not([class]) td, .provenance :is(th, td)") == []
    )
