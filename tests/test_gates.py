"""What every page must pass: both schemes, phone and desktop, keyboard, no scripts, weight."""

import gzip
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from conftest import Watch

from selfattn.labs.catalog import LABS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
NOTEBOOKS = [f"{lab.script}-solved" for lab in LABS.values()]
PAGES = [*sorted(path.stem for path in DOCS.glob("*.md")), *NOTEBOOKS, "404"]
SCHEMES = {"light": "default", "dark": "slate"}
SIZES = ((360, 780), (1280, 900))
PAGE_BYTES = 350 * 1024
"""What a page may weigh with all it loads, gzipped."""
WHOLE_BYTES = 600 * 1024
"""The same for the one that holds all pages, and for the playground."""
SCRIPT_BYTES = 10 * 1024
"""What the scripts that are ours may weigh, gzipped."""

# Elements of the page's text that nobody sees and nobody can unfold: by a fold, or by the radio
# buttons of a picture or of tabs. A form that works by script alone is not text.
UNSEEN = """() => [...document.querySelectorAll(
    'article :is(h1, h2, h3, p, li, pre, table, figure, math, dt, dd)')].filter((element) =>
        !element.checkVisibility() &&
        !element.closest('details:not([open]), [hidden], dialog, .needs-scripts') &&
        !element.closest('.frame, .tabbed-block, form') &&
        element.textContent.trim()).map((element) => element.outerHTML.slice(0, 200))"""

# All that the Tab key must reach: what is seen and can be used. The button back to the top is left
# out, as it comes and goes with the direction in which one scrolls.
STOPS = """() => [...document.querySelectorAll(
    'a[href], button:not(.md-top), input, select, textarea, summary, [tabindex]'
    )].filter((element) =>
        element.checkVisibility({visibilityProperty: true}) && element.tabIndex >= 0 &&
        !element.disabled && !element.closest('[inert]') &&
        // Of radio buttons with one name only the chosen one is a stop.
        !(element.type === 'radio' && !element.checked))
    .map((element, i) => { element.dataset.stop = i; return element.outerHTML.slice(0, 160) })"""


@pytest.fixture(scope="module")
def axe():
    return Axe()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_in_all_its_shapes(served, axe, name):
    for scheme, known in SCHEMES.items():
        served.page.emulate_media(color_scheme=scheme)
        for width, height in SIZES:
            served.page.set_viewport_size({"width": width, "height": height})
            served.open(name)
            shape = f"{name}, {scheme}, {width} wide"
            found = served.page.evaluate("document.body.dataset.mdColorScheme")
            assert found == known, shape
            scroll, client = served.page.evaluate(
                "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
            )
            assert scroll <= client, shape
            assert served.page.evaluate("document.getAnimations().length") == 0, shape
            results = axe.run(served.page)
            assert results.violations_count == 0, f"{shape}\n{results.generate_report()}"
            assert served.seen == [], shape


@pytest.mark.parametrize("name", PAGES)
def test_a_page_reads_without_scripts(browser, home, name):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{home}/{name}.html")
    assert page.locator("h1").is_visible()
    assert page.evaluate(UNSEEN) == []
    context.close()


@pytest.mark.parametrize("name", PAGES)
def test_the_tab_key_reaches_everything(served, name):
    served.page.set_viewport_size({"width": 1280, "height": 900})
    served.open(name)
    served.scroll()
    stops = served.page.evaluate(STOPS)
    reached = set()
    for _ in range(len(stops) + 20):
        served.page.keyboard.press("Tab")
        if served.page.evaluate("document.activeElement === document.body"):
            break
        reached.add(served.page.evaluate("document.activeElement.dataset.stop"))
    assert [text for i, text in enumerate(stops) if str(i) not in reached] == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_light(browser, home, name):
    page = browser.new_page()
    loaded = {}
    page.on("response", lambda response: loaded.setdefault(response.url, response))
    page.goto(f"{home}/{name}.html", wait_until="networkidle")
    sizes = {
        url: len(gzip.compress(answer.body()))
        for url, answer in list(loaded.items())
        if answer.ok and url.startswith(home)
    }
    page.close()
    heaviest = sorted(sizes.items(), key=lambda item: -item[1])[:6]
    limit = WHOLE_BYTES if name in {"whole", "playground"} else PAGE_BYTES
    assert sum(sizes.values()) <= limit, heaviest


def test_our_scripts_are_small():
    sizes = {
        script.stem: len(gzip.compress(script.read_bytes()))
        for script in [
            *DOCS.glob("assets/javascripts/*.js"),
            ROOT / "overrides/partials/refused-storage.js",
        ]
    }
    playground = sum(size for name, size in sizes.items() if name.startswith("playground"))
    assert playground <= 2 * SCRIPT_BYTES
    assert sum(sizes.values()) - playground <= SCRIPT_BYTES


@pytest.mark.parametrize("name", [name for name in PAGES if name != "404"])
def test_a_page_opens_from_disk(browser, built_site, name):
    page = browser.new_page()
    watch = Watch(page, built_site.as_uri())
    watch.open(name)
    assert page.locator("h1").is_visible()
    assert watch.seen == []
    page.close()
