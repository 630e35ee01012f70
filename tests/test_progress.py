"""What a reader marks as done: the pure functions, and the pages in Chromium by a set clock."""

import datetime
import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from conftest import Watch
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).parent.parent
KEY, ASIDE = "selfattn.progress", "selfattn.progress.aside"
NOON = "2026-03-12T11:00:00Z"  # 12:00 in Berlin


class Config(yaml.SafeLoader):
    """Reads mkdocs.yml without what its tags stand for."""


Config.add_multi_constructor("", lambda loader, suffix, node: None)


def markable():
    """The names of the pages that can be marked, from the navigation."""
    config = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Config)
    sections = {title: pages for item in config["nav"] for title, pages in dict_of(item).items()}
    pages = [page for title in config["extra"]["progress"] for page in sections[title]]
    files = [page if isinstance(page, str) else next(iter(page.values())) for page in pages]
    return [file.rsplit(".", 1)[0] for file in files if file != "progress.md"]


def dict_of(item):
    return item if isinstance(item, dict) else {}


def day(text):
    return datetime.date.fromisoformat(text)


def dates(first, last):
    return st.dates(day(first), day(last)).map(datetime.date.isoformat)


# The pure functions ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def progress(browser, home):
    """A function that calls one of the script's pure functions in a page."""
    page = browser.new_page()
    page.goto(f"{home}/summary.html")
    yield lambda name, *given: page.evaluate("([f, given]) => progress[f](...given)", [name, given])
    page.close()


@pytest.mark.parametrize(
    ("zone", "instant", "local"),
    [
        ("UTC", "2026-03-12T23:59:59Z", "2026-03-12"),
        ("UTC", "2026-03-13T00:00:00Z", "2026-03-13"),
        ("Asia/Kolkata", "2026-03-12T18:29:59Z", "2026-03-12"),  # five hours and a half ahead
        ("Asia/Kolkata", "2026-03-12T18:30:00Z", "2026-03-13"),
        ("America/Los_Angeles", "2026-01-01T07:59:59Z", "2025-12-31"),
        ("Europe/Berlin", "2026-03-28T23:00:00Z", "2026-03-29"),  # the day of 23 hours begins
        ("Europe/Berlin", "2026-03-29T21:59:59Z", "2026-03-29"),
        ("Europe/Berlin", "2026-03-29T22:00:00Z", "2026-03-30"),
        ("Europe/Berlin", "2026-10-25T22:59:59Z", "2026-10-25"),  # the day of 25 hours ends
        ("America/Sao_Paulo", "2018-11-04T02:59:59Z", "2018-11-03"),
        ("America/Sao_Paulo", "2018-11-04T03:00:00Z", "2018-11-04"),  # it began at one o'clock
        ("Pacific/Apia", "2011-12-30T09:59:59Z", "2011-12-29"),
        ("Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-31"),  # Samoa had no 30th
        ("UTC", "0099-01-02T00:00:00Z", "0099-01-02"),
    ],
)
def test_a_day_is_that_of_the_readers_calendar(browser, home, zone, instant, local):
    page = browser.new_page(timezone_id=zone)
    page.goto(f"{home}/summary.html")
    assert page.evaluate("(at) => progress.dayOf(new Date(at))", instant) == local
    page.close()


@pytest.mark.parametrize(
    ("days", "today", "current", "longest"),
    [
        ([], "2026-03-12", 0, 0),
        (["2026-03-12"], "2026-03-12", 1, 1),
        (["2026-03-11"], "2026-03-12", 1, 1),
        (["2026-03-10"], "2026-03-12", 0, 1),
        (["2026-03-11", "2026-03-09", "2026-03-10"], "2026-03-12", 3, 3),
        (["2026-03-05", "2026-03-06", "2026-03-08", "2026-03-12"], "2026-03-12", 1, 2),
        (["2026-03-28", "2026-03-29", "2026-03-30"], "2026-03-30", 3, 3),  # 23 hours in Berlin
        (["2026-10-24", "2026-10-25", "2026-10-26"], "2026-10-26", 3, 3),  # 25 hours in Berlin
        (["2028-02-28", "2028-02-29", "2028-03-01"], "2028-03-01", 3, 3),
        (["2028-02-28", "2028-03-01"], "2028-03-01", 1, 1),
        (["2026-02-28", "2026-03-01"], "2026-03-01", 2, 2),
        (["2025-12-31", "2026-01-01"], "2026-01-02", 2, 2),
        (["2026-03-12", "2026-03-12"], "2026-03-12", 1, 1),
        (["2026-03-13"], "2026-03-12", 1, 1),  # flown to the west
        (["2026-03-11", "2026-03-12", "2026-03-13"], "2026-03-12", 3, 3),
        (["2026-03-10", "2026-03-11", "2026-03-13"], "2026-03-12", 2, 2),
        (["2026-03-12", "2030-01-01", "2030-01-02"], "2026-03-12", 1, 2),  # a clock set back
        (["9999-12-30", "9999-12-31"], "2026-03-12", 0, 2),
    ],
)
def test_streaks_worked_out_by_hand(progress, days, today, current, longest):
    assert progress("streaks", days, today) == {"current": current, "longest": longest}


def run_through(days, one):
    """How many days in a row, `one` among them, are in a set of dates."""
    if one not in days:
        return 0
    step, length = datetime.timedelta(days=1), 1
    for sign in (-1, 1):
        other = one + sign * step
        while other in days:
            length, other = length + 1, other + sign * step
    return length


@given(st.lists(dates("2027-12-20", "2028-03-10"), max_size=60), dates("2028-01-01", "2028-03-08"))
def test_streaks_agree_with_a_loop(progress, days, today):
    known = {day(one) for one in days}
    # What lies beyond tomorrow cannot be reached by any flight: it does not belong to the current.
    reached = {one for one in known if one <= day(today) + datetime.timedelta(days=1)}
    near = [day(today) + datetime.timedelta(days=shift) for shift in (-1, 0, 1)]
    assert progress("streaks", days, today) == {
        "current": max(run_through(reached, one) for one in near),
        "longest": max((run_through(known, one) for one in known), default=0),
    }


@pytest.mark.parametrize(
    "text",
    [
        "2026-02-29",
        "2026-13-01",
        "2026-00-10",
        "2026-04-31",
        "2026-1-1",
        "12026-01-01",
        "",
        "today",
    ],
)
def test_what_is_no_day(progress, text):
    assert not progress("isDay", text)


@pytest.mark.parametrize("value", [None, 20260312, True, ["2026-03-12"], {}])
def test_what_is_no_day_and_no_text(progress, value):
    assert not progress("isDay", value)


@given(st.dates(day("0001-01-01"), day("9999-12-31")))
def test_every_date_is_a_day(progress, date):
    assert progress("isDay", date.isoformat())


def record(done=None, days=None, **more):
    done = done or {}
    days = sorted({*done.values(), *(days or [])})
    return {"version": 1, "done": done, "days": days, "streak": True, **more}


records = st.builds(
    record,
    st.dictionaries(
        st.sampled_from(["average", "scale", "gone", "__proto__", "constructor"]),
        dates("2026-01-01", "2026-12-31"),
    ),
    st.lists(dates("2026-01-01", "2026-12-31"), max_size=5),
)


@given(records, records)
def test_merging_loses_nothing_and_keeps_the_earlier_day(progress, mine, theirs):
    both = [*mine["done"].items(), *theirs["done"].items()]
    merged = progress("merge", mine, theirs)
    if "__proto__" not in {key for key, _ in both}:  # the test's own way into the page drops it
        assert merged["done"] == {key: min(d for k, d in both if k == key) for key, _ in both}
    assert merged["days"] == sorted({*mine["days"], *theirs["days"]})
    assert progress("merge", merged, theirs) == merged
    other = progress("merge", theirs, mine)
    assert (other["done"], other["days"]) == (merged["done"], merged["days"])


@given(records)
def test_a_record_is_read_as_it_was_written(progress, written):
    read = progress("parse", json.dumps(written))
    read["record"]["done"].pop("__proto__", None)
    written["done"].pop("__proto__", None)
    assert read["whole"]
    assert read["record"]["days"] == written["days"]
    assert read["record"]["done"] == written["done"]


def test_a_field_that_a_later_script_may_add_stays(progress):
    written = record({"average": "2026-03-12"}, notes=["kept"], streak=False)
    assert progress("parse", json.dumps(written)) == {"whole": True, "record": written}


@pytest.mark.parametrize(
    ("text", "done", "days"),
    [
        ("", {}, []),
        ("{broken", {}, []),
        ("null", {}, []),
        ("[]", {}, []),
        ("7", {}, []),
        ('"2026-03-12"', {}, []),
        ("{}", {}, []),
        ("[" * 100_000, {}, []),
        ('{"version": 1, "done": 5, "days": {}}', {}, []),
        ('{"version": 1, "done": "abc"}', {}, []),
        (
            '{"version": 1, "done": {"a": "2026-03-12", "b": 1}}',
            {"a": "2026-03-12"},
            ["2026-03-12"],
        ),
        ('{"version": 1, "done": {}, "days": ["2026-03-12", null]}', {}, ["2026-03-12"]),
        ('{"done": {"a": "2026-03-12"}}', {"a": "2026-03-12"}, ["2026-03-12"]),
        (
            '{"version": 2, "done": {"a": "2026-03-12"}, "x": 1}',
            {"a": "2026-03-12"},
            ["2026-03-12"],
        ),
    ],
)
def test_of_damaged_or_foreign_text_what_can_be_read_is_read(progress, text, done, days):
    assert progress("parse", text) == {"whole": False, "record": record(done, days)}


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        (record(), ["mark", "a", "2026-03-12"], record({"a": "2026-03-12"})),
        (
            record({"a": "2026-03-01"}),
            ["mark", "a", "2026-03-12"],  # done already, in another tab
            record({"a": "2026-03-01"}),
        ),
        (record({"a": "2026-03-12"}), ["unmark", "a", "2026-03-12"], record()),
        (
            record({"a": "2026-03-12", "b": "2026-03-12"}),
            ["unmark", "a", "2026-03-12"],
            record({"b": "2026-03-12"}),
        ),
        (
            record({"a": "2026-03-01"}),
            ["unmark", "a", "2026-03-12"],  # on a later day: the first day had something finished
            record(days=["2026-03-01"]),
        ),
        (
            record({"a": "2026-03-01"}, ["2026-03-12"]),
            ["unmark", "a", "2026-03-12"],  # today's own mark is another, taken back or merged
            record(days=["2026-03-01", "2026-03-12"]),
        ),
        (record({"a": "2026-03-01"}), ["unmark", "b", "2026-03-12"], record({"a": "2026-03-01"})),
        (record({"a": "2026-03-01"}), ["reset"], record()),
        (record({"a": "2026-03-01"}), ["streak", False], record({"a": "2026-03-01"}, streak=False)),
    ],
)
def test_changes_worked_out_by_hand(progress, before, change, after):
    assert progress("replay", before, [change]) == after


# The pages ---------------------------------------------------------------------------------------


class Reader:
    """A browser of one reader, whose clock is set, and its first tab."""

    def __init__(self, browser, home, at, zone, **settings):
        self.home = home
        self.context = browser.new_context(
            timezone_id=zone,
            reduced_motion="reduce",
            viewport={"width": 1280, "height": 900},
            **settings,
        )
        self.context.clock.install(time=at)
        self.first = self.tab()

    def tab(self):
        return Watch(self.context.new_page(), self.home)

    def stored(self, key=KEY):
        return self.first.page.evaluate("(key) => localStorage.getItem(key)", key)

    def record(self):
        return json.loads(self.stored())


@pytest.fixture
def reader(browser, home):
    """A function that gives a reader a browser; none of its tabs may complain of anything."""
    readers = []

    def come(at=NOON, zone="Europe/Berlin", home=home, **settings):
        readers.append(Reader(browser, home, at, zone, **settings))
        return readers[-1]

    yield come
    for one in readers:
        one.context.close()


def box(tab):
    return tab.page.get_by_label("Mark this page as done")


def mark(tab, name):
    tab.open(name)
    box(tab).check()
    assert tab.seen == []


def figures(tab):
    """What the tab shows of done, done today, current and longest streak."""
    return tab.page.locator("dl.progress dd:visible").all_inner_texts()


def put(tab, text):
    """Store a text by hand where the script keeps its record."""
    tab.page.evaluate("([key, text]) => localStorage.setItem(key, text)", [KEY, text])


def said(tab):
    return tab.page.locator(".said").inner_text()


def total(n):
    return f"{n} of {len(markable())} pages"


def test_exactly_the_pages_of_the_named_sections_can_be_marked(built_site):
    boxes = {path.stem for path in built_site.glob("*.html") if "data-mark" in path.read_text()}
    assert {"average", "square"} <= boxes == set(markable())


def test_a_mark_is_shown_everywhere_and_can_be_taken_back(reader):
    one = reader()
    tab = one.first
    tab.open("average")
    assert not box(tab).is_checked()
    mark(tab, "average")
    assert one.record() == record({"average": "2026-03-12"})
    assert total(1) in tab.page.locator(".mark").inner_text()
    tab.page.reload()
    assert box(tab).is_checked()
    tab.open("index")
    assert figures(tab) == [total(1), "1 page", "1 day", "1 day"]
    assert tab.page.locator(".cards a.done").all_inner_texts() == ["Average"]
    assert tab.page.locator(".md-nav--primary a.done").count() == 1
    tab.page.get_by_role("link", name="Your progress").last.click()
    tab.page.wait_for_url("**/progress.html")
    assert figures(tab) == [total(1), "1 page", "1 day", "1 day"]
    rows = tab.page.locator(".pages li").all_inner_texts()
    assert len(rows) == len(markable())
    assert rows[0].endswith("done on 12 March 2026")
    assert not any("done" in row for row in rows[1:])
    tab.open("average")
    box(tab).uncheck()
    assert one.record() == record()
    tab.open("index")
    assert figures(tab) == []
    assert tab.seen == []


@pytest.mark.parametrize("event", ["pageshow", "focus", "visibilitychange"])
def test_a_page_seen_again_is_up_to_date(reader, event):
    tab = reader().first
    tab.open("index")
    # What another page stored while this one was frozen, such as behind the back button.
    text = json.dumps(record({"scale": "2026-03-12"}))
    put(tab, text)
    assert figures(tab) == []
    tab.page.evaluate("(name) => { dispatchEvent(new Event(name)) }", event)
    assert figures(tab)[0] == total(1)


def test_the_box_is_a_box_for_the_keyboard(reader):
    tab = reader().first
    tab.open("average")
    box(tab).focus()
    tab.page.keyboard.press("Space")
    assert box(tab).is_checked()
    tab.page.keyboard.press("Tab")
    assert tab.page.evaluate("document.activeElement.textContent") == "Your progress"


def test_the_last_page_is_said_to_be_the_last(reader):
    tab = reader().first
    for name in markable():
        mark(tab, name)
        assert ("Well done" in said(tab)) is (name == markable()[-1])


def test_a_page_left_open_past_midnight_shows_the_new_day(reader):
    one = reader(at="2026-03-12T22:50:00Z")  # 23:50 in Berlin
    mark(one.first, "average")
    one.first.open("progress")
    assert figures(one.first)[1:3] == ["1 page", "1 day"]
    one.context.clock.run_for("09:00")
    assert figures(one.first)[1:3] == ["1 page", "1 day"]
    one.context.clock.run_for("02:00")
    assert figures(one.first)[1:3] == ["0 pages", "1 day"]
    one.context.clock.run_for("24:00:00")
    assert figures(one.first)[1:] == ["0 pages", "0 days", "1 day"]


def test_a_mark_set_after_midnight_in_a_page_opened_before_counts_for_the_new_day(reader):
    one = reader(at="2026-03-12T22:59:00Z")
    one.first.open("average")
    one.context.clock.set_system_time("2026-03-12T23:00:10Z")  # and no timer has fired
    box(one.first).check()
    assert one.record()["done"] == {"average": "2026-03-13"}


@pytest.mark.parametrize(
    "instants",  # each less than an hour from a midnight of Berlin, around a change of the clocks
    [
        ("2026-03-28T22:30:00Z", "2026-03-28T23:30:00Z", "2026-03-29T22:30:00Z"),
        ("2026-10-24T21:30:00Z", "2026-10-25T22:30:00Z", "2026-10-25T23:30:00Z"),
    ],
)
def test_days_of_23_and_25_hours_are_days(reader, instants):
    one = reader(at=instants[0])
    for instant, name in zip(instants, ("average", "scale", "order"), strict=True):
        one.context.clock.set_system_time(instant)
        mark(one.first, name)
    one.first.open("progress")
    assert figures(one.first) == [total(3), "1 page", "3 days", "3 days"]


def test_a_day_stays_that_day_for_a_reader_who_flies(reader, home):
    auckland = reader(at="2026-03-11T20:00:00Z", zone="Pacific/Auckland")  # the 12th, 09:00
    mark(auckland.first, "average")
    store = auckland.context.storage_state()
    hawaii = reader(at="2026-03-12T05:00:00Z", zone="Pacific/Honolulu", storage_state=store)
    hawaii.first.open("progress")  # the 11th, 19:00
    assert figures(hawaii.first) == [total(1), "0 pages", "1 day", "1 day"]
    mark(hawaii.first, "scale")
    assert hawaii.record()["done"] == {"average": "2026-03-12", "scale": "2026-03-11"}
    hawaii.first.open("progress")
    assert figures(hawaii.first) == [total(2), "1 page", "2 days", "2 days"]


def test_a_clock_set_back_loses_nothing(reader):
    one = reader(at="2030-01-01T12:00:00Z")
    mark(one.first, "average")
    one.context.clock.set_system_time(NOON)
    mark(one.first, "scale")
    one.first.open("progress")
    assert figures(one.first) == [total(2), "1 page", "1 day", "1 day"]
    assert one.record()["done"] == {"average": "2030-01-01", "scale": "2026-03-12"}
    assert one.first.seen == []


def test_two_tabs_keep_each_others_marks(reader):
    one = reader()
    left, right = one.first, one.tab()
    left.open("average")
    right.open("scale")
    box(left).check()
    right.page.get_by_text(total(1)).wait_for()
    box(right).check()
    left.page.get_by_text(total(2)).wait_for()
    assert set(one.record()["done"]) == {"average", "scale"}
    right.open("average")
    box(right).uncheck()
    left.page.wait_for_function("!document.querySelector('[data-mark]').checked")


def reset(tab):
    tab.page.get_by_role("button", name="Reset").click()
    tab.page.get_by_role("button", name="Remove").click()
    tab.page.get_by_text("Everything was removed.").wait_for()


def test_what_one_tab_removed_no_other_brings_back(reader, tmp_path):
    one = reader()
    left, right = one.first, one.tab()
    for tab in (left, right):
        tab.open("progress")
    (tmp_path / "file.json").write_text(json.dumps(record({"scale": "2026-03-12"})))
    bring(left, tmp_path / "file.json")
    right.page.locator("dl.progress").wait_for()
    reset(right)
    left.page.locator("dl.progress").wait_for(state="hidden")
    left.page.get_by_label("Show streaks").uncheck()
    assert one.record() == record(streak=False)


FILL = """() => {
    let size = 1 << 22
    let text = ""
    while (size >= 1) {
        try { localStorage.setItem("full", text + "x".repeat(size)); text += "x".repeat(size) }
        catch { size >>= 1 }
    }
}"""


def test_a_full_store_keeps_the_marks_in_the_tab_until_there_is_room(reader):
    one = reader()
    mark(one.first, "average")
    one.first.page.evaluate(FILL)
    one.first.open("scale")
    box(one.first).check()
    assert "until you close this tab" in said(one.first)
    assert set(one.record()["done"]) == {"average"}
    one.first.open("order")
    assert total(2) in one.first.page.locator(".mark").inner_text()
    one.first.open("progress")
    assert figures(one.first)[0] == total(2)
    one.first.page.evaluate("localStorage.removeItem('full')")
    one.first.open("progress")
    assert set(one.record()["done"]) == {"average", "scale"}
    assert said(one.first) == ""
    assert one.first.seen == []


REFUSE = """for (const name of ["localStorage", "sessionStorage"]) {
    const get = () => { throw new DOMException("denied", "SecurityError") }
    Object.defineProperty(window, name, { get })
}"""


def test_a_browser_that_refuses_storage_keeps_the_mark_in_the_page(reader):
    tab = reader().first
    tab.page.add_init_script(REFUSE)
    tab.open("average")
    box(tab).check()
    assert total(1) in tab.page.locator(".mark").inner_text()
    assert "until you leave this page" in said(tab)
    box(tab).uncheck()
    assert total(0) in tab.page.locator(".mark").inner_text()
    tab.open("progress")
    tab.page.get_by_label("Show streaks").uncheck()
    assert tab.seen == []


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("{broken", {}),
        ('{"version": 1, "done": {"scale": "2026-03-01", "order": 7}}', {"scale": "2026-03-01"}),
    ],
)
def test_what_cannot_be_read_is_kept_aside_and_said(reader, text, left):
    one = reader()
    one.first.open("summary")
    put(one.first, text)
    one.first.open("average")
    assert "could not be read" in said(one.first)
    box(one.first).check()
    assert one.record() == record({**left, "average": "2026-03-12"})
    assert one.stored(ASIDE) == text + "\n"
    one.first.open("progress")
    with one.first.page.expect_download() as download:
        one.first.page.get_by_role("link", name="download it").click()
    assert download.value.path().read_text() == text + "\n"
    assert one.first.seen == []


def test_a_second_damage_is_kept_beside_the_first(reader):
    one = reader()
    for text in ("{first", "{second", "{second"):
        one.first.open("summary")
        put(one.first, text)
        one.first.open("progress")
    assert one.stored(ASIDE) == "{first\n{second\n"
    reset(one.first)
    assert one.stored(ASIDE) is None


def test_damaged_text_stays_where_it_is_while_there_is_no_room_for_a_copy(reader):
    one = reader()
    one.first.open("summary")
    damaged = "{" + "x" * 2_000
    put(one.first, damaged)
    one.first.page.evaluate(FILL)
    one.first.open("average")
    box(one.first).check()
    assert one.stored() == damaged
    assert total(1) in one.first.page.locator(".mark").inner_text()


@pytest.mark.parametrize(
    "text", ["{broken", "7", '"text"', "{}", "[7]", '[["gone"]]', '[["merge"]]']
)
def test_a_damaged_note_of_the_tab_is_no_matter(reader, text):
    one = reader()
    one.first.open("summary")
    one.first.page.evaluate("([key, text]) => sessionStorage.setItem(key, text)", [KEY, text])
    mark(one.first, "average")
    assert one.record() == record({"average": "2026-03-12"})


def test_pages_that_are_gone_are_kept_and_not_counted(reader):
    one = reader()
    one.first.open("summary")
    old = json.dumps(record({"gone": "2026-03-11"}))
    put(one.first, old)
    mark(one.first, "average")
    one.first.open("progress")
    assert figures(one.first) == [total(1), "1 page", "2 days", "2 days"]
    assert one.record()["done"] == {"gone": "2026-03-11", "average": "2026-03-12"}


def export(tab):
    tab.open("progress")
    with tab.page.expect_download() as download:
        tab.page.get_by_role("link", name="Export to a file").click()
    assert download.value.suggested_filename == "selfattn-progress-2026-03-12.json"
    return download.value.path()


def bring(tab, path):
    """Import a file, and wait for what is said of it."""
    tab.page.get_by_label("Import from a file").set_input_files(path)
    tab.page.locator(".said:not(:empty)").wait_for()
    return said(tab)


def test_what_one_browser_exports_another_imports(reader):
    one, other = reader(), reader()
    mark(one.first, "average")
    mark(one.first, "scale")
    path = export(one.first)
    mark(other.first, "scale")
    other.first.open("progress")
    assert bring(other.first, path) == "The file was imported. New: 1 page, 0 days."
    assert figures(other.first) == [total(2), "2 pages", "1 day", "1 day"]
    assert other.record() == one.record()
    other.first.open("progress")
    assert bring(other.first, path) == "The file was imported. New: 0 pages, 0 days."
    assert other.first.seen == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "this is no file of progress"),
        (b"\xff\xfe\x00", "this is no file of progress"),
        (b'{"name": "something else"}', "this is no file of progress"),
        (b" " * 2_000_000, "this is no file of progress"),
        (b'{"version": 1, "done": {}, "days": []}', "the file holds no marks"),
    ],
)
def test_a_bad_file_changes_nothing(reader, tmp_path, content, words):
    one = reader()
    mark(one.first, "average")
    before = one.stored()
    one.first.open("progress")
    (tmp_path / "file.json").write_bytes(content)
    assert bring(one.first, tmp_path / "file.json") == f"Nothing was imported: {words}."
    assert one.stored() == before
    assert one.first.seen == []


def test_a_file_that_is_good_in_part_is_imported_in_part(reader, tmp_path):
    one = reader()
    one.first.open("progress")
    text = '{"version": 1, "done": {"scale": "2026-03-01", "order": "soon"}, "days": []}'
    (tmp_path / "file.json").write_text(text)
    words = bring(one.first, tmp_path / "file.json")
    assert words.startswith("The file was imported. New: 1 page, 1 day. Some of the file")
    assert one.record() == record({"scale": "2026-03-01"})


def test_a_reset_asks_first(reader):
    one = reader()
    mark(one.first, "average")
    page = one.first.page
    one.first.open("progress")
    question = page.get_by_role("dialog", name="Remove every mark")
    for refuse in (
        lambda: page.keyboard.press("Escape"),
        lambda: page.keyboard.press("Enter"),  # the first button has the focus
    ):
        page.get_by_role("button", name="Reset").click()
        assert question.is_visible()
        refuse()
        question.wait_for(state="hidden")
        assert set(one.record()["done"]) == {"average"}
    reset(one.first)
    assert one.record() == record()
    assert figures(one.first) == []


def test_streaks_can_be_switched_off_for_good(reader):
    one = reader()
    mark(one.first, "average")
    one.first.open("progress")
    one.first.page.get_by_label("Show streaks").uncheck()
    assert figures(one.first) == [total(1), "1 page"]
    one.first.open("index")
    assert figures(one.first) == [total(1), "1 page"]
    one.first.open("progress")
    reset(one.first)
    one.first.open("progress")
    assert not one.first.page.get_by_label("Show streaks").is_checked()
    one.first.page.get_by_label("Show streaks").check()
    mark(one.first, "average")
    one.first.open("index")
    assert figures(one.first) == [total(1), "1 page", "1 day", "1 day"]


def test_it_works_from_disk(reader, built_site):
    one = reader(home=built_site.as_uri())
    left, right = one.first, one.tab()
    right.open("index")
    mark(left, "average")
    right.page.locator("dl.progress").wait_for()
    assert figures(right) == [total(1), "1 page", "1 day", "1 day"]
    path = export(left)
    assert json.loads(path.read_text()) == one.record()
    assert left.seen == right.seen == []


def test_without_scripts_nothing_dead_is_shown(browser, built_site):
    context = browser.new_context(java_script_enabled=False)
    tab = Watch(context.new_page(), built_site.as_uri())
    for name in ("average", "index", "progress"):
        tab.open(name)
        assert tab.page.locator(".mark, .settings, dl.progress").count() > 0
        for part in tab.page.locator(".mark, .settings, dl.progress, dialog").all():
            assert not part.is_visible()
    assert tab.page.get_by_text("Progress needs scripts").is_visible()
    assert tab.page.locator(".pages a:visible").count() == len(markable())
    context.close()


def test_nothing_of_it_is_printed(reader):
    tab = reader().first
    mark(tab, "average")
    tab.page.emulate_media(media="print")
    assert not box(tab).is_visible()
    tab.open("progress")
    assert tab.page.locator("h1").is_visible()
    assert not tab.page.locator(".settings").is_visible()


def test_a_renamed_page_keeps_its_readers_marks_by_its_old_key(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/index.md").write_text("# Home\n")
    (tmp_path / "docs/new-name.md").write_text("---\nkey: old-name\n---\n# A & B\n")
    (tmp_path / "docs/other.md").write_text("# Other\n")
    shutil.copytree(ROOT / "overrides", tmp_path / "overrides")
    (tmp_path / "mkdocs.yml").write_text(
        "site_name: Small\ntheme: {name: material, custom_dir: overrides, font: false}\n"
        f"hooks: [{ROOT / 'selfattn' / 'site.py'}]\n"
        "extra: {progress: [Part]}\nuse_directory_urls: false\n"
        "nav: [index.md, {Part: [new-name.md, {Deeper: [other.md]}]}]\n"
    )
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "-q", "-d", "site"], cwd=tmp_path, check=True
    )
    html = (tmp_path / "site/new-name.html").read_text()
    assert '{"old-name": "new-name.html", "other": "other.html"}' in html
    assert 'data-mark="old-name"' in html


def test_the_scripts_are_small():
    scripts = [
        ROOT / "docs/assets/javascripts/progress.js",
        ROOT / "overrides/partials/refused-storage.js",
    ]
    assert sum(len(gzip.compress(script.read_bytes())) for script in scripts) < 4_000
