"""What the built site does in Chromium; test_gates.py has what every page must pass."""

import pytest

SIZES = ((390, 844), (1440, 900))


def test_the_site_opens_from_disk_and_finds(on_disk):
    on_disk.page.set_viewport_size({"width": 1440, "height": 900})
    on_disk.open("index")
    # Material reads the query when a key goes up: a value set without keys may never be seen.
    query = on_disk.page.locator('[data-md-component="search-query"]')
    query.press_sequentially("softmax")
    link = on_disk.page.locator(".md-search-result__link").first
    link.wait_for(timeout=10_000)
    assert on_disk.seen == []
    link.click()
    on_disk.page.wait_for_url("file://**?h=*")
    assert on_disk.page.locator("mark").count() > 0


def test_a_cell_is_coloured_by_its_weight(on_disk):
    on_disk.page.set_viewport_size({"width": 1440, "height": 900})
    on_disk.open("average")
    colours = on_disk.page.evaluate(
        """() => [...document.querySelectorAll('.heatmap td[style]')].map((cell) => {
            const style = getComputedStyle(cell)
            return [cell.textContent, style.backgroundColor, style.color]
        })"""
    )
    assert colours
    by_weight = {}
    for weight, background, text in colours:
        assert by_weight.setdefault(weight, (background, text)) == (background, text)
    assert len({background for background, _ in by_weight.values()}) == len(by_weight)


def test_a_printed_page_has_no_furniture(on_disk):
    on_disk.open("average")
    on_disk.page.emulate_media(media="print")
    for furniture in (".md-header", ".md-sidebar", ".md-footer", ".headerlink"):
        assert not on_disk.page.locator(furniture).first.is_visible(), furniture
    assert on_disk.page.locator("h1").is_visible()
    on_disk.page.emulate_media(media="screen")


@pytest.mark.parametrize("width", [width for width, _ in SIZES])
def test_wide_heatmaps_are_whole(on_disk, width):
    on_disk.page.set_viewport_size({"width": width, "height": 900})
    on_disk.open("scale")
    boxes = on_disk.page.evaluate(
        """[...document.querySelectorAll('.heat.compact .heat-scroll')].map(
            (box) => box.scrollWidth - box.clientWidth)"""
    )
    assert boxes
    assert max(boxes) <= 1  # half a pixel may be rounded up


def test_a_number_says_where_it_is_from_and_its_source_is_linked(on_disk):
    on_disk.page.set_viewport_size({"width": 1440, "height": 900})
    on_disk.open("scale")
    number = on_disk.page.locator("data", has_text="0.93").first
    assert number.get_attribute("title") == "0.9321, printed by scale, section table"
    assert number.get_attribute("tabindex") is None
    on_disk.page.locator("details.provenance > summary").click()
    link = on_disk.page.locator("details.provenance a", has_text="scale, table").first
    target = link.get_attribute("href")
    assert "0.9321" in on_disk.page.locator(target).inner_text()
