"""Folded hints, answers and solutions in Chromium: links, keys, paper, and no scripts."""

import pytest

FOLDS = "details:is(.hint, .answer, .solution)"
OPEN = f"{FOLDS}[open]"
WITHIN_THE_LAST_ANSWER = ("left-answer", "left-cure", "out-questions-left-cure")


@pytest.fixture
def tab(on_disk):
    on_disk.page.set_viewport_size({"width": 1440, "height": 900})
    on_disk.page.goto("about:blank")  # else a new hash would not load the page anew
    on_disk.open("questions")
    assert opened(on_disk.page) == []
    yield on_disk.page
    assert on_disk.seen == []


@pytest.fixture
def plain(browser, built_site):
    """A tab without scripts."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{built_site.as_uri()}/questions.html")
    yield page
    context.close()


def opened(page):
    return [fold.get_attribute("id") for fold in page.locator(OPEN).all()]


def go(page, target):
    url = page.url.partition("#")[0]
    page.goto("about:blank")
    page.goto(f"{url}#{target}", wait_until="load")


def hidden(page):
    """The contents of folds that nobody can see."""
    contents = page.locator(f"{FOLDS} > :not(summary)").all()
    assert contents
    return [content for content in contents if not content.is_visible()]


@pytest.mark.parametrize("target", WITHIN_THE_LAST_ANSWER)
def test_an_address_opens_what_hides_its_target(tab, target):
    go(tab, target)
    tab.locator("#left-answer[open]").wait_for()
    assert opened(tab) == ["left-answer"]
    tab.wait_for_function(
        """(id) => {
            const { top } = document.getElementById(id).getBoundingClientRect()
            return top >= 0 && top < innerHeight
        }""",
        arg=target,
    )


@pytest.mark.parametrize("target", WITHIN_THE_LAST_ANSWER)
def test_a_link_opens_its_target_each_time_it_is_followed(tab, target):
    tab.evaluate(
        """(id) => document.querySelector('h1').insertAdjacentHTML('afterend',
            `<p><a id="link" href="#${id}">Link</a></p>`)""",
        target,
    )
    for _ in range(2):
        tab.locator("#link").click()
        tab.locator("#left-answer[open]").wait_for()
        tab.evaluate("document.getElementById('left-answer').open = false")


def test_a_fold_in_a_fold_is_opened_with_what_is_around_it(tab):
    tab.evaluate(
        """document.getElementById('left-answer').insertAdjacentHTML('beforeend',
            '<details class="hint" id="inner"><summary>Inner</summary><p>In.</p></details>')"""
    )
    tab.evaluate("location.hash = 'inner'")
    tab.locator("#inner[open]").wait_for()
    assert opened(tab) == ["left-answer", "inner"]


def test_an_address_of_nothing_is_no_fault(tab):
    for target in ("nowhere", "%", "left answer", '"]'):
        go(tab, target)
        assert opened(tab) == []


def test_the_address_names_the_fold_that_was_opened(tab):
    where = tab.evaluate("scrollY")
    tab.locator("#diagonal-hint > summary").click()
    assert tab.url.endswith("questions.html#diagonal-hint")
    assert tab.evaluate("scrollY") == where
    tab.reload()
    tab.locator("#diagonal-hint[open]").wait_for()
    assert opened(tab) == ["diagonal-hint"]


def test_by_keyboard(tab):
    order = [fold.get_attribute("id") for fold in tab.locator(FOLDS).all()]
    tab.locator("article a[href^='average.html#']").focus()
    reached = []
    while len(reached) < 2:
        tab.keyboard.press("Tab")
        at = tab.evaluate(
            "(document.activeElement.matches('summary') && document.activeElement.parentElement.id)"
        )
        reached += [at] if at else []
    assert reached == order[:2]
    assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    tab.keyboard.press("Enter")
    assert opened(tab) == [reached[-1]]
    tab.keyboard.press("Space")
    assert opened(tab) == []


def test_paper_shows_all_and_the_screen_what_it_showed(tab):
    tab.locator("#fill-hint > summary").click()
    before = len(hidden(tab))
    assert before > 0
    tab.emulate_media(media="print")
    assert hidden(tab) == []
    tab.emulate_media(media="screen")
    assert len(hidden(tab)) == before
    assert opened(tab) == ["fill-hint"]


def test_printing_opens_all_where_the_style_sheet_cannot(tab):
    tab.locator("#fill-hint > summary").click()
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert len(opened(tab)) == tab.locator(FOLDS).count()
    tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert opened(tab) == ["fill-hint"]


def test_printing_twice_leaves_the_screen_as_it_was(tab):
    tab.locator("#fill-hint > summary").click()
    for _ in range(2):
        tab.pdf()
        assert opened(tab) == ["fill-hint"]


def test_without_scripts_all_can_be_opened_and_printed(plain):
    plain.emulate_media(media="print")
    assert hidden(plain) == []
    plain.emulate_media(media="screen")
    for fold in plain.locator(FOLDS).all():
        fold.locator("> summary").click()
    assert len(opened(plain)) == plain.locator(FOLDS).count()
    assert hidden(plain) == []
