"""What a reader would type, and the page that must come first, by Material's own search."""

from urllib.parse import urlsplit

import pytest

FIRST = {
    "mask wrong way round": "pytorch",
    "nan": "padding-mask",
    "scale": "scale",
    "why divide by sqrt d": "scale",
    "variance": "scale",
    "softmax": "padding-mask",
    "wrong dimension": "average",
    "row sums": "average",
    "padding": "padding-mask",
    "pad token": "padding-mask",
    "minus infinity": "padding-mask",
    "masked_fill": "padding-mask",
    "causal": "causal-mask",
    "future": "causal-mask",
    "order": "order",
    "positions": "order",
    "bias": "projections",
    "query key value": "projections",
    "scaled_dot_product_attention": "pytorch",
    "MultiheadAttention": "pytorch",
    "is_causal": "pytorch",
    "heads": "pytorch",
    "memory": "square",
    "quadratic cost": "square",
    "flash attention": "square",
    "bag of words": "data",
    "tokenizer": "data",
    "vocabulary": "data",
    "banking77": "data",
    "broadcast": "glossary",
    "permutation": "glossary",
    "cheat sheet": "cheat-sheet",
    "notebook": "lab-loops",
    "streak": "progress",
}


@pytest.fixture(scope="module")
def search(on_disk):
    """A function that types a query and gives the links of the results."""
    on_disk.page.set_viewport_size({"width": 1440, "height": 900})
    on_disk.open("index")
    field = on_disk.page.locator('[data-md-component="search-query"]')
    links = on_disk.page.locator(".md-search-result__item > a")

    def find(query):
        field.fill("")
        field.press("Backspace")  # Material reads the field when a key goes up
        links.first.wait_for(state="detached")
        on_disk.page.keyboard.insert_text(query)  # at once: no results for its beginnings
        field.press("End")
        links.first.wait_for()
        return [link.get_attribute("href") for link in links.all()]

    yield find
    assert on_disk.seen == []


@pytest.mark.parametrize("query", FIRST)
def test_the_page_that_must_come_first(search, query):
    first = urlsplit(search(query)[0])
    assert first.path.rsplit("/", 1)[-1] == f"{FIRST[query]}.html"


def test_the_solved_notebooks_are_not_found_beside_their_labs(search):
    pages = {urlsplit(link).path.rsplit("/", 1)[-1] for link in search("solution")}
    assert {"lab-loops.html", "lab-masks.html"} <= pages
    assert not [page for page in pages if page.endswith("-solved.html")]
