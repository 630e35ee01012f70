"""The switch "Predict first" in Chromium: it folds every output, and forgets nothing."""

import re
from pathlib import Path

import pytest
from conftest import Watch

ROOT = Path(__file__).parent.parent
OUTPUTS = ".executed :is(.language-text, .shown)"
SWITCH = "Predict first: fold the outputs"
REFUSED = """for (const name of ['localStorage', 'sessionStorage'])
    Object.defineProperty(window, name, { get() { throw new DOMException('refused') } })"""


@pytest.fixture
def reader(browser, home):
    """Opens tabs of one reader, whose browser remembers nothing at first."""
    context = browser.new_context(reduced_motion="reduce")

    def tab(name):
        tab = Watch(context.new_page(), home)
        tab.open(name)
        return tab

    yield tab
    context.close()


@pytest.fixture
def tab(reader):
    tab = reader("average")
    yield tab
    assert tab.seen == []


def shown(tab):
    """How many outputs there are, and how many can be seen."""
    outputs = tab.page.locator(OUTPUTS).all()
    return len(outputs), sum(output.is_visible() for output in outputs)


def sections(name):
    """How many sections a page shows: on the pages here each prints or draws something."""
    text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    return len(re.findall(r"^```python exec=", text, flags=re.MULTILINE))


def test_numbers_that_an_output_printed_are_hidden_as_long_as_it_is(tab):
    """Else the sentence below a folded output would tell what is in it."""
    quoted = tab.page.locator("data[title$='printed by average, section wrong-dimension']")
    texts = quoted.all_text_contents()
    assert "0.5581" in texts
    tab.page.get_by_label(SWITCH).check()
    assert set(quoted.all_text_contents()) == {"…"}
    tab.page.locator("#out-average-scores summary").click()
    assert set(quoted.all_text_contents()) == {"…"}
    tab.page.locator("#out-average-wrong-dimension summary").click()
    tab.page.wait_for_function(
        """() => document.querySelector("data[title$=', section wrong-dimension']")
            .textContent !== '…'"""
    )
    assert quoted.all_text_contents() == texts
    tab.page.get_by_label(SWITCH).uncheck()
    assert tab.page.locator("data", has_text="…").count() == 0


def test_a_number_from_a_check_is_hidden_with_the_picture_that_it_checks(tab):
    quoted = tab.page.locator("data[title$=', section figure-check']").first
    text = quoted.text_content()
    tab.page.get_by_label(SWITCH).check()
    assert quoted.text_content() == "…"
    tab.page.locator("[id$='-figure'] > .output > summary").last.click()
    tab.page.wait_for_function("(t) => document.body.textContent.includes(t)", arg=text)


def test_paper_hides_no_number(tab):
    tab.page.get_by_label(SWITCH).check()
    assert tab.page.locator("data", has_text="…").count() > 0
    tab.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert tab.page.locator("data", has_text="…").count() == 0
    tab.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert tab.page.locator("data", has_text="…").count() > 0


def test_it_folds_every_output_until_the_reader_opens_it(tab):
    count = sections("average")
    assert shown(tab) == (count, count)
    tab.page.get_by_label(SWITCH).check()
    assert shown(tab) == (count, 0)
    tab.page.locator("#out-average-scores summary").click()
    assert shown(tab) == (count, 1)
    assert tab.page.locator("#out-average-scores .language-text").is_visible()
    tab.page.get_by_label(SWITCH).uncheck()
    assert shown(tab) == (count, count)
    assert tab.page.locator(".executed details").count() == 0


def test_the_choice_is_remembered_on_every_page_and_in_every_tab(reader):
    first, second = reader("average"), reader("scale")
    first.page.get_by_label(SWITCH).check()
    count, _ = shown(second)
    assert count >= sections("scale")
    second.page.locator(".executed details").nth(count - 1).wait_for()
    assert shown(second) == (count, 0)
    second.open("index")
    assert second.page.get_by_label(SWITCH).is_checked()
    assert shown(second)[1] == 0
    second.page.get_by_label(SWITCH).uncheck()
    first.page.reload()
    assert not first.page.get_by_label(SWITCH).is_checked()
    assert shown(first) == (sections("average"),) * 2
    assert first.seen == second.seen == []


def test_the_code_stays_where_it_was(tab):
    place = "document.querySelector('#out-average-embeddings .language-python')"
    before = tab.page.evaluate(f"{place}.getBoundingClientRect().top")
    tab.page.get_by_label(SWITCH).check()
    assert tab.page.evaluate(f"{place}.getBoundingClientRect().top") == before


def test_by_keyboard(tab):
    tab.page.get_by_label(SWITCH).focus()
    tab.page.keyboard.press("Space")
    summary = tab.page.locator(".executed summary").first
    for _ in range(9):
        tab.page.keyboard.press("Tab")
        if summary.evaluate("(summary) => summary === document.activeElement"):
            break
    tab.page.keyboard.press("Enter")
    assert shown(tab)[1] == 1


def test_a_browser_that_keeps_nothing_still_folds(reader):
    tab = reader("average")
    tab.page.add_init_script(REFUSED)
    tab.page.reload()
    tab.page.get_by_label(SWITCH).check()
    assert shown(tab)[1] == 0
    tab.page.evaluate("dispatchEvent(new Event('pageshow'))")
    assert shown(tab)[1] == 0
    tab.page.reload()
    assert shown(tab) == (sections("average"),) * 2
    assert tab.seen == []


def test_paper_shows_everything(tab):
    tab.page.get_by_label(SWITCH).check()
    tab.page.emulate_media(media="print")
    assert shown(tab) == (sections("average"),) * 2
    assert not tab.page.locator(".output > summary, .predict").first.is_visible()


def test_without_scripts_everything_is_shown_and_no_switch(browser, built_site):
    context = browser.new_context(java_script_enabled=False)
    tab = Watch(context.new_page(), built_site.as_uri())
    tab.open("average")
    assert shown(tab) == (sections("average"),) * 2
    assert not tab.page.get_by_label(SWITCH).is_visible()
    context.close()
