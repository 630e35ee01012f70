"""The playground in Chromium, opened from disk: its arithmetic against PyTorch, and its page."""
# ruff: noqa: RUF001 (letters that look like others are among what is tested)

import base64
import gzip
import json
import math
import re
import time
import unicodedata

import numpy as np
import pytest
import torch
from conftest import Watch
from playwright.sync_api import expect
from torch import nn

from selfattn import corpora
from selfattn.playground import FILE, script
from selfattn.text import MAX_LEN, UNK, tokenize, vocab

DIM = 16
STEPS = ("scores", "scaled", "masked", "weights", "output")
SCALES = {"root": lambda n: 4, "none": lambda n: 1, "d": lambda n: 16, "seq": math.sqrt}
MASKS = ("keys", "rows", "off")
FILLS = ("-Infinity", "-10000", "-10", "0")
CAUSAL = ("off", "on", "diagonal")
STRANGE = (
    "Where is my card?",
    "my card is not my card",
    "?!., ;: ...",
    "zeppelin unicorn whale",
    "Füße, naïve café — ÇA VA?",
    "ΟΔΥΣΣΕΥΣ ΑΣ. Σ",
    "İstanbul İ I ı",
    "e\u0301 combining a\u0308\u0323",
    "👩‍👩‍👧‍👦 my 🏳️‍🌈 card 👍🏽",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐐀𐐨 𝟘𝟙",
    "卡在哪里？ 三 カード ｶｰﾄﾞ",
    "بطاقتي أين",
    "_under_score_ snake_case __",
    "a\u00a0b\u1680c\u3000d\u2028e\x1cf\x85g\ufeffh\u200bi",
    "½ ² ٣ Ⅷ ① 〇",
    "<img src=x onerror=alert(1)> &amp; <pad> <unk>",
    "constructor __proto__ toString hasOwnProperty",
    "x",
    " ".join(["card"] * 48),
    " ".join(["card", "?"] * 40),
)


@pytest.fixture(scope="module")
def layers():
    torch.manual_seed(42)
    embedding = nn.Embedding(2202, DIM, padding_idx=0)
    return embedding, nn.Linear(DIM, DIM), nn.Linear(DIM, DIM), nn.Linear(DIM, DIM)


@pytest.fixture(scope="module")
def tab(browser, built_site):
    context = browser.new_context(reduced_motion="reduce", viewport={"width": 1280, "height": 900})
    watch = Watch(context.new_page(), built_site.as_uri())
    yield watch
    context.close()


@pytest.fixture
def page(tab):
    """The playground as a reader finds it; it must not complain by the end of the test."""
    tab.page.goto("about:blank")  # or another address of the same page would load nothing
    tab.open("playground")
    yield tab.page
    assert tab.seen == []


def go(page, link):
    page.goto("about:blank")
    page.goto(link)


def address(page, state):
    return page.evaluate("location.href").split("#")[0] + state


def part(page, name):
    return page.locator(f'[data-part="{name}"]')


def text(page, name):
    return part(page, name).inner_text()


# The script with the numbers ---------------------------------------------------------------


def test_the_page_loads_the_lessons_numbers_bit_by_bit(built_site, layers):
    written = (built_site / FILE).read_text("utf-8")
    data = json.loads(written.removeprefix("const playgroundWeights = "))
    numbers = np.frombuffer(base64.b64decode(data["floats"]), "<f4")
    expected = [p.detach().flatten() for layer in layers for p in layer.parameters()]
    assert np.array_equal(numbers, torch.cat(expected).numpy())
    assert data["words"].split(" ") == list(corpora.words())


def test_no_word_ends_the_script():
    written = script(["</script>", "b"], nn.Embedding(2, 1), nn.Linear(1, 1))
    assert written.count("</script>") == 1
    assert "\\u003c/script>" in written


@pytest.mark.parametrize("words", [["a"], ["a", "b", "c"], ["a", "b c"], ["a", ""]])
def test_words_that_do_not_fit_are_refused(words):
    with pytest.raises(ValueError, match="expected 2 words without white space"):
        script(words, nn.Embedding(2, 1), nn.Linear(1, 1))


def test_the_page_stays_within_its_bytes(built_site):
    def packed(path):
        return len(gzip.compress((built_site / path).read_bytes()))

    ours = [f"assets/javascripts/playground{name}.js" for name in ("", "-model")]
    assert sum(map(packed, ours)) <= 20_000
    html = (built_site / "playground.html").read_text("utf-8")
    loaded = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="([^":#]+\.(?:js|css|svg))"', html)
    assert {FILE, *ours, "assets/stylesheets/playground.css"} <= set(loaded)
    fonts = sum(path.stat().st_size for path in built_site.glob("assets/vendor/fonts/*.woff2"))
    assert packed("playground.html") + sum(map(packed, loaded)) + fonts <= 600_000


def test_only_the_playground_loads_it(built_site):
    loading = [p.name for p in built_site.glob("*.html") if "playground-weights" in p.read_text()]
    assert loading == ["playground.html"]


# Tokens ------------------------------------------------------------------------------------


def tokens_in_page(page, texts):
    """Tokens as lists of code points, so that nothing on the way can change a letter."""
    answer = page.evaluate(
        """(texts) => JSON.stringify(JSON.parse(texts).map((codes) =>
            playgroundModel.tokenize(codes.map((code) => String.fromCodePoint(code)).join(""))
                .map((token) => [...token].map((letter) => letter.codePointAt(0)))))""",
        json.dumps([list(map(ord, text)) for text in texts]),
    )
    return json.loads(answer)


def tokens_here(texts):
    return [[list(map(ord, token)) for token in tokenize(text)] for text in texts]


def test_every_character_that_both_unicodes_know_is_read_as_python_reads_it(page):
    known = page.evaluate(
        """() => Array.from({ length: 0x110000 }, (_, code) => code)
            .filter((code) => !/\\p{Cn}/u.test(String.fromCodePoint(code)))"""
    )
    both = [c for c in known if unicodedata.category(chr(c)) not in {"Cn", "Co"}]
    assert len(both) > 140_000
    # Alone, beside a word, and between two halves of one: all that can be asked of a character.
    texts = [f"{chr(c)} a{chr(c)}B" for c in both]
    for at in range(0, len(texts), 20_000):
        chunk = texts[at : at + 20_000]
        assert tokens_in_page(page, chunk) == tokens_here(chunk)


def test_strange_texts_are_read_as_python_reads_them(page):
    letters = "aZ_9 ?ΣσςΑİıIß\u0301\u0345\u00ad'.:\ufeff\x1f\x85\u200d👩🏽𝔘卡½\ud800\udfff"
    random = np.random.RandomState(0)
    mixed = ["".join(random.choice(list(letters), 12)) for _ in range(5000)]
    pairs = re.compile("[\ud800-\udbff][\udc00-\udfff]")  # one letter in JavaScript, two in Python
    texts = [*STRANGE, *(text for text in mixed if not pairs.search(text))]
    assert len(texts) > 4000
    assert tokens_in_page(page, texts) == tokens_here(texts)


# Numbers -----------------------------------------------------------------------------------


def cases():
    """Queries with settings: every combination of switches, and queries of every length."""
    random = np.random.RandomState(1)
    known, words = [text for text, _ in corpora.rows("bundled")], list(vocab)[2:]
    switches = [(s, m, f, c) for s in SCALES for m in MASKS for f in FILLS for c in CAUSAL]
    for i in range(2 * len(switches)):
        scale, mask, fill, causal = switches[i % len(switches)]
        typed = (
            STRANGE[i]
            if i < len(STRANGE)
            else known[i]
            if i % 2
            else " ".join(random.choice(words, 1 + i % 50))
        )
        count = min(len(tokenize(typed)), MAX_LEN)
        order = random.permutation(count).tolist() if i % 3 else []
        pads = (0, 1, 3, 43, 47)[i % 5]
        yield {
            "text": typed,
            "settings": {"scale": scale, "mask": mask, "causal": causal, "pads": pads},
            "fill": fill,
            "order": order,
        }


@torch.no_grad()
def expected(layers, case, **plain):
    """The same by PyTorch, written down independently of the page.

    Returns:
        Ids `[seq]`, the five matrices by name, and the output by typed place.
    """
    settings = {**case["settings"], "fill": case["fill"], "order": case["order"], **plain}
    embedding, query, key, value = layers
    typed = tokenize(case["text"])[:MAX_LEN]
    order = settings["order"] or list(range(len(typed)))
    ids = [vocab.get(typed[place], UNK) for place in order]
    ids = torch.tensor((ids + [0] * settings["pads"])[:MAX_LEN])
    n, real = len(ids), len(typed)
    x = embedding(ids)
    scores = query(x) @ key(x).T
    scaled = scores / SCALES[settings["scale"]](n)
    blocked = torch.zeros(n, n, dtype=torch.bool)
    if settings["mask"] == "keys":
        blocked[:, real:] = True
    if settings["mask"] == "rows":
        blocked[real:, :] = True
    for i in range(n):
        first = {"off": n, "on": i + 1, "diagonal": i}[settings["causal"]]
        blocked[i, first:] = True
    masked = scaled.masked_fill(blocked, float(settings["fill"]))
    weights = masked.softmax(dim=-1)
    output = weights @ value(x)
    matrices = dict(zip(STEPS, (scores, scaled, masked, weights, output), strict=True))
    by_typed = output[[order.index(place) for place in range(real)]]
    return ids, matrices, by_typed


# As text: playwright takes minutes for so many numbers, and JSON has no nan.
RUN = """(cases) => {
    const layer = playgroundModel.layer(playgroundWeights)
    const plain = (key, value) => ArrayBuffer.isView(value) ? Array.from(value)
        : typeof value === "number" && !Number.isFinite(value) ? String(value) : value
    return JSON.stringify(JSON.parse(cases).map(({ text, settings, fill, order }) =>
        playgroundModel.effects(layer, text, { ...settings, fill: Number(fill), order })), plain)
}"""

PLAIN = {
    "scale": "root",
    "pads": 0,
    "mask": "keys",
    "fill": "-Infinity",
    "causal": "off",
    "order": [],
}


def close(got, wanted):
    return torch.allclose(
        torch.tensor(np.array(got, dtype=float)),
        torch.as_tensor(wanted).double(),
        rtol=0,
        atol=1e-5,
        equal_nan=True,
    )


def apart(one, other):
    """The largest difference, where two nan are equal and one alone is nan."""
    both = one.isnan() & other.isnan()
    return torch.where(both, 0.0, (one - other).abs()).amax(dim=-1)


def test_all_matrices_of_all_switches_are_pytorchs(page, layers):
    asked = list(cases())
    assert len({case["text"] for case in asked}) >= 200
    answers = json.loads(page.evaluate(RUN, json.dumps(asked)))
    for case, got in zip(asked, answers, strict=True):
        ids, matrices, here = expected(layers, case)
        there = got["here"]
        assert list(map(int, there["ids"])) == ids.tolist(), case
        for step in STEPS:
            assert close(there[step], matrices[step]), (step, case)
        _, _, plain = expected(layers, case, **PLAIN)
        order = case["order"] or list(range(len(here)))
        assert close(got["moved"], apart(here, plain)[order]), case
        for name, value in PLAIN.items():
            _, _, back = expected(layers, case, **{name: value})
            assert close(got["switches"][name], apart(here, back).max()), (name, case)


def test_the_switches_of_the_page_are_those_that_were_compared(page):
    def values(name):
        return page.locator(f"select[name={name}] option").evaluate_all(
            "all => all.map(o => o.value)"
        )

    assert values("scale") == list(SCALES)
    assert values("mask") == list(MASKS)
    assert values("fill") == list(FILLS)
    assert values("causal") == list(CAUSAL)
    assert page.locator("input[name=show]").evaluate_all("all => all.map(r => r.value)") == [
        *STEPS,
        "all",
    ]


# The page ----------------------------------------------------------------------------------


def cells(page, step):
    return page.locator(f'figure[data-step="{step}"] tbody tr').evaluate_all(
        """rows => rows.map(row => [...row.querySelectorAll("td")].map(td => td.textContent))"""
    )


def words(locator):
    return locator.evaluate_all("all => all.map(element => element.textContent)")


def test_it_starts_as_the_still_picture_shows_it(page):
    still = page.locator("#out-playground-still")
    assert not still.is_visible()
    figure = page.locator('figure[data-step="weights"]')
    for part_of in ("thead th", "tbody th", "tbody td"):
        assert words(figure.locator(part_of)) == words(still.locator(f"table.heatmap {part_of}"))
    said = still.locator("pre").inner_text().strip()
    shown = zip(
        words(part(page, "tokens").locator("button")),
        words(part(page, "tokens").locator("tbody tr").first.locator("td")),
        strict=True,
    )
    assert said == ", ".join(f"{token} {number}" for token, number in shown)


def test_each_suggestion_shows_what_its_script_printed(page, built_site):
    """Follow the suggestions, and find PyTorch's numbers of the page's own table."""
    printed = page.locator("#out-playground-layer-switches pre").inner_text()
    rows = {line[:26].strip(): line[26:].split() for line in printed.splitlines()}
    wanted = (
        ("43 pads, no mask", 0),
        ("43 pads, rows blocked", 1),
        ("43 pads, filled with 0", 2),
        ("undivided", 3),
        ("reversed", 4),
        ("off by one", 5),
    )
    links = page.locator("a.try")
    for row, index in wanted:
        links.nth(index).click()
        moved, largest, on_pads, gone = rows[row]
        page.wait_for_function(
            """([moved, gone]) => {
                const said = document.querySelector("[data-part=summary]").textContent
                const rows = said.match(/(\\d+) rows? of nan/)?.[1] ?? "0"
                return said.includes(moved === "nan" ? "output is nan" : moved) && rows === gone
            }""",
            arg=[moved, gone],
        )
        if on_pads != "0.0000":
            assert f"{float(on_pads):.2f} of their weight" in text(page, "summary")
        if gone == "0":
            real = [[float(n.split()[0]) for n in line[:5]] for line in cells(page, "weights")[:5]]
            assert max(map(max, real)) == pytest.approx(float(largest), abs=0.006)
    page.locator("select[name=fill]").select_option("-10000")
    assert rows["off by one, -1e4"][0] in text(page, "summary")
    assert cells(page, "weights")[0] == ["0.20 though masked"] * 5
    links.nth(4).click()  # reversed; then the causal mask
    page.wait_for_function("document.querySelector('[name=order]').value")
    page.locator("select[name=causal]").select_option("on")
    assert rows["causal, reversed"][0] in text(page, "summary")
    for index, begins, one, other in ((6, "My card", 1, 5), (7, "A zeppelin", 1, 4)):
        links.nth(index).click()
        page.wait_for_function(
            "(begins) => document.querySelector('[name=text]').value.startsWith(begins)", arg=begins
        )
        weights = cells(page, "weights")
        assert weights[one] == weights[other]
        assert [row[one] for row in weights] == [row[other] for row in weights]
        page.locator("select[name=causal]").select_option("on")
        assert cells(page, "weights")[one] != cells(page, "weights")[other]


def test_typing_shows_tokens_ids_and_unknown_words(page):
    page.locator("textarea").fill("")
    page.locator("textarea").press_sequentially("My unicorn, arrived?")
    assert words(part(page, "tokens").locator("button")) == ["my", "unicorn", ",", "arrived", "?"]
    ids = words(part(page, "tokens").locator("tbody tr").first.locator("td"))
    assert ids == ["4", "1 unknown", str(vocab[","]), "274", "3"]
    assert len(cells(page, "weights")) == 8  # with three pads


@pytest.mark.parametrize("nothing", ["", "  \n\t "])
def test_an_empty_query_is_shown_as_such(page, nothing):
    page.locator("textarea").fill(nothing)
    assert "An empty query" in text(page, "summary")
    assert page.locator("figure:visible.heat").count() == 0
    assert not part(page, "tokens").is_visible()
    page.locator('[data-order="reverse"]').click()
    page.locator("textarea").fill("?")
    assert words(part(page, "tokens").locator("button")) == ["?"]
    assert page.locator('figure[data-step="weights"]').is_visible()


def test_a_query_is_cut_at_48_tokens(page):
    page.locator("textarea").fill(" ".join(["card"] * 48))
    assert "Cut" not in text(page, "summary")
    assert text(page, "pads-used") == "0"
    page.locator("textarea").fill(" ".join(["card"] * 51))
    assert "Cut at 48 tokens: the last 3 are not read." in text(page, "summary")
    assert len(cells(page, "weights")) == 48


def test_what_is_typed_is_never_markup(page):
    page.evaluate("() => { window.alert = () => { window.spoilt = true } }")
    evil = "<img src=x onerror=alert(1)><script>alert(2)</script>\"'&lt;"
    page.locator("textarea").fill(evil)
    for show in ("all", "weights"):
        page.locator(f"input[value={show}]").check(force=True)
    go_on = "document.querySelector('#playground').querySelectorAll('img, script').length"
    assert page.evaluate(go_on) == 0
    assert page.evaluate("window.spoilt") is None
    assert words(part(page, "tokens").locator("button")) == tokenize(evil)
    part(page, "link").click()
    page.reload()
    assert page.locator("textarea").input_value() == evil
    assert page.evaluate(go_on) == 0


def test_every_step_says_what_is_masked_and_what_is_nan(page):
    page.goto(address(page, "#pads=2&show=all"))
    masked, weights = cells(page, "masked"), cells(page, "weights")
    assert {tuple(row[5:]) for row in masked} == {("−∞ masked", "−∞ masked")}
    assert {tuple(row[5:]) for row in weights} == {("masked", "masked")}
    page.locator("select[name=mask]").select_option("rows")
    assert [set(row) for row in cells(page, "weights")[5:]] == [{"nan"}, {"nan"}]
    assert [set(row) for row in cells(page, "output")[5:]] == [{"nan"}, {"nan"}]
    assert "2 rows of nan" in text(page, "summary")
    page.locator("select[name=fill]").select_option("-10000")
    assert cells(page, "masked")[5] == ["−10000 masked"] * 7
    assert cells(page, "weights")[5] == ["0.14 though masked"] * 7


def test_the_distance_is_told_of_the_others_where_one_is_nan(page, layers):
    page.goto(address(page, "#pads=4&causal=diagonal&fill=-10&mask=off"))
    page.locator("select[name=fill]").select_option("-Infinity")
    case = {"text": "Where is my card?", "fill": "-Infinity", "order": []}
    case["settings"] = {"scale": "root", "pads": 4, "mask": "off", "causal": "diagonal"}
    _, matrices, here = expected(layers, case)
    _, _, plain = expected(layers, case, **PLAIN)
    far = apart(here, plain)[1:].max()
    given = matrices["weights"][1:5, 5:].sum(dim=-1)
    assert given.max() == 0
    assert text(page, "summary") == (
        f"A token’s output is nan; the others are up to {far:.4f} from those of the plain query. "
        "The tokens give 0.00 of their weight to the 4 pads. "
        "1 row of nan: every key is masked with minus infinity, and the softmax divides 0 by 0."
    )


def test_a_link_carries_the_state(page):
    page.locator("textarea").fill("Is it 🏳️‍🌈 & =#?")
    page.locator("select[name=scale]").select_option("none")
    page.locator("select[name=causal]").select_option("on")
    page.locator("input[value=all]").check(force=True)
    page.locator("input[name=pads]").press("ArrowRight")
    page.locator('[data-order="reverse"]').click()
    page.wait_for_function("location.hash.includes('order=')")
    state = (text(page, "summary"), words(page.locator("#playground figure:visible td")))
    href = part(page, "link").evaluate("link => link.href")
    assert href == page.url
    go(page, href)
    assert (text(page, "summary"), words(page.locator("#playground figure:visible td"))) == state
    assert page.locator("textarea").input_value() == "Is it 🏳️‍🌈 & =#?"
    page.locator("form.playground button[type=reset]").click()
    page.wait_for_function("location.hash === ''")
    assert page.locator("textarea").input_value() == "Where is my card?"
    assert text(page, "order") == "as plain"


@pytest.mark.parametrize(
    "damaged",
    [
        "#pads=x&mask=what&scale=&fill=1&causal=%&show=them&order=7.7",
        "#pads=-3&order=a.b.c.d.e&text=Where+is+my+card?",
        "#pads=1e9&order=0.1.2.3.5",
        "#%E0%A4%A&&&==&pads=3.7",
        "#no-such-heading",
    ],
)
def test_a_damaged_link_gives_what_was_there_at_first(page, damaged):
    at_first = (text(page, "summary"), cells(page, "weights"), text(page, "order"))
    go(page, address(page, damaged))
    assert (text(page, "summary"), cells(page, "weights"), text(page, "order")) == at_first


def test_a_headings_address_keeps_the_state(page):
    page.locator("textarea").fill("my card")
    page.evaluate(
        """() => new Promise((heard) => {
            addEventListener("hashchange", heard)
            location.hash = "#try-this"
        })"""
    )
    assert page.locator("textarea").input_value() == "my card"


def test_words_are_moved_by_the_keyboard(page):
    page.locator('[data-part="tokens"] button').nth(3).focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    buttons = part(page, "tokens").locator("button")
    assert words(buttons) == ["where", "card", "is", "my", "?"]
    assert page.evaluate("document.activeElement.textContent") == "card"
    assert part(page, "order").text_content() == "moves the outputs by 0.0000"
    buttons.first.press("Enter")
    assert words(buttons) == ["?", "card", "is", "my", "where"]
    page.locator('[data-order="shuffle"]').click()
    assert sorted(words(buttons)) == sorted(tokenize("Where is my card?"))
    page.locator('[data-order="typed"]').click()
    assert words(buttons) == tokenize("Where is my card?")


def test_all_controls_are_reached_by_the_keyboard(page):
    page.locator("textarea").focus()
    reached = []
    for _ in range(20):
        reached.append(
            page.evaluate("document.activeElement.name || document.activeElement.innerText")
        )
        page.keyboard.press("Tab")
    wanted = ["text", "where", "is", "my", "card", "?", "show", "scale", "pads", "mask", "fill"]
    wanted += ["causal", "Reverse", "Shuffle", "As typed", "Start again", "Link to this state"]
    assert [name for name in reached if name in wanted] == wanted
    page.locator("input[value=weights]").focus()
    page.keyboard.press("ArrowLeft")
    assert page.locator('figure[data-step="masked"]').is_visible()
    assert not page.locator('figure[data-step="weights"]').is_visible()


@pytest.fixture
def stopped(browser, built_site):
    """The playground in a tab whose clock stands still until it is told to run."""
    context = browser.new_context()
    page = context.new_page()
    page.clock.install()
    page.goto(f"{built_site.as_uri()}/playground.html")
    page.clock.pause_at(page.evaluate("Date.now()") + 60_000)
    yield page
    context.close()


def test_the_result_is_announced_once_the_reader_rests(stopped):
    said = part(stopped, "status")
    assert said.get_attribute("role") == "status"
    stopped.clock.run_for(2000)
    assert said.text_content() == ""
    stopped.locator("textarea").press_sequentially("? My unicorn!")
    stopped.locator("select[name=scale]").select_option("none")
    stopped.clock.run_for(700)
    assert said.text_content() == ""
    stopped.clock.run_for(200)
    assert said.text_content() == text(stopped, "summary") != ""


def test_what_is_shown_or_moved_is_announced(stopped):
    stopped.locator("input[value=output]").check(force=True)
    stopped.clock.run_for(900)
    assert part(stopped, "status").text_content() == f"Shown: output. {text(stopped, 'summary')}"
    stopped.locator("textarea").fill("my card is here")
    part(stopped, "tokens").locator("button").first.press("Enter")
    stopped.clock.run_for(900)
    said = f"my is now 4 of 4. {text(stopped, 'summary')}"
    assert part(stopped, "status").text_content() == said


def test_typing_is_noted_in_the_address_and_not_in_the_history(stopped):
    length = stopped.evaluate("history.length")
    stopped.locator("textarea").press("Control+End")
    stopped.locator("textarea").press_sequentially(" now")
    assert stopped.evaluate("location.hash") == ""
    stopped.clock.run_for(500)
    assert stopped.evaluate("location.hash") == "#text=Where+is+my+card%3F+now"
    assert stopped.evaluate("history.length") == length


# What the cell of all pads says in a token's row and in the first pad's row, by the state.
PADDED = {
    "mask=off": ("{:.2f}", "{:.2f}"),
    "": ("masked", "masked"),
    "fill=-10000": ("masked", "masked"),
    "fill=0": ("{:.2f} though masked", "{:.2f} though masked"),
    "mask=rows": ("{:.2f}", "nan"),
    "mask=rows&fill=-10": ("{:.2f}", "{:.2f} though masked"),
    "mask=off&causal=on": ("masked", "{:.2f}"),  # the first pad sees itself
    "mask=off&causal=on&fill=0": ("{:.2f} though masked", "{:.2f} though masked"),
}


@pytest.mark.parametrize(("state", "said"), PADDED.items(), ids=[s or "plain" for s in PADDED])
def test_many_pads_are_one_column_and_one_row(page, layers, state, said):
    go(page, address(page, f"#pads=43&{state}"))
    asked = dict(part_of.split("=") for part_of in state.split("&") if part_of)
    case = {"text": "Where is my card?", "fill": asked.pop("fill", "-Infinity"), "order": []}
    case["settings"] = {"scale": "root", "mask": "keys", "causal": "off", "pads": 43, **asked}
    weights = expected(layers, case)[1]["weights"]
    together = weights[:, 5:].sum(dim=-1)
    rows = [said[0].format(together[i]) for i in range(5)] + [said[1].format(together[5])]
    assert [row[-1] for row in cells(page, "weights")] == rows
    first_token = [row[0].split()[0] for row in cells(page, "weights")]
    assert [n for n in first_token if n != "nan"] == [
        f"{weights[i, 0]:.2f}" for i in range(6) if not weights[i, 0].isnan()
    ]
    figure = page.locator('figure[data-step="weights"]')
    labels = tokenize("Where is my card?")
    assert words(figure.locator("thead th")) == [*labels, "43 pads"]
    assert words(figure.locator("tbody th")) == [*labels, "first of 43 pads"]
    assert (
        "The 43 pads are one column, the sum of their weights"
        in words(figure.locator("figcaption"))[0]
    )


def test_on_a_phone_the_weight_of_many_pads_is_seen(page):
    page.set_viewport_size({"width": 360, "height": 740})
    go(page, address(page, "#pads=43&mask=off"))
    figure = page.locator('figure[data-step="weights"]')
    seen = figure.locator(".heat-scroll").bounding_box()
    for cell in (figure.locator("thead th").last, figure.locator("tbody td").last):
        box = cell.bounding_box()
        assert box["x"] + box["width"] <= seen["x"] + seen["width"]
        assert box["height"] >= 12
    assert figure.locator("tbody td span").last.evaluate("s => getComputedStyle(s).clipPath") == (
        "none"
    )
    shares = figure.locator("tbody td:last-child").evaluate_all(
        "all => all.map(td => Number(td.style.getPropertyValue('--w')))"
    )
    assert min(shares) > 0.85
    page.set_viewport_size({"width": 1280, "height": 900})


def test_the_whole_table_is_there_on_demand(page):
    go(page, address(page, "#pads=43&mask=off&show=all"))
    for step in ("scores", "scaled", "masked"):
        assert [len(row) for row in cells(page, step)] == [48] * 48
    assert len(cells(page, "output")) == 48
    assert [len(row) for row in cells(page, "weights")] == [6] * 6
    page.get_by_label("every cell with its number").check()
    assert [len(row) for row in cells(page, "weights")] == [48] * 48
    caption = page.locator('figure[data-step="weights"] figcaption')
    assert caption.inner_text() == "weights: the softmax of each row; each row sums to 1."


def test_a_single_pad_is_shown_as_such(page):
    page.locator("textarea").fill(" ".join(["card"] * 12))
    page.locator("input[name=pads]").fill("1")
    names = words(page.locator('figure[data-step="weights"] thead th'))
    assert names == ["card"] * 12 + ["<pad>"]


def test_the_corner_is_seen_in_a_table_of_small_cells(page):
    go(page, address(page, "#pads=43&show=scores"))
    for name in ("k", "q"):
        corner = page.locator(f'figure[data-step="scores"] thead td .{name}')
        assert corner.evaluate("e => getComputedStyle(e).clipPath") == "none"


def test_numbers_are_offered_where_cells_have_none(page):
    offer = part(page, "numbers")
    assert not offer.is_visible()
    go(page, address(page, "#pads=43"))
    for show in (*STEPS, "all"):
        page.locator(f"input[value={show}]").check(force=True)
        assert offer.is_visible() == (show != "output"), show


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("Where is my card?", ""),
        ("Where is my unicorn?", "1 token is unknown and has the vector of all unknown words."),
        ("my 🦄 and zeppelin ate a unicorn", "3 tokens are unknown and share one vector."),
    ],
)
def test_unknown_words_are_counted(page, query, said):
    page.locator("textarea").fill(query)
    assert text(page, "summary").endswith(said or "to the 3 pads.")
    assert ("unknown" in text(page, "summary")) == bool(said)


def test_pads_have_the_places_that_the_words_leave(page):
    slider = page.locator("input[name=pads]")

    def agree(pads, most):
        assert (slider.input_value(), slider.get_attribute("max")) == (str(pads), str(most))
        assert text(page, "pads-used") == str(pads)
        href = part(page, "link").evaluate("link => link.hash")
        assert f"pads={pads}" in href if pads != 3 else "pads" not in href

    agree(3, 43)
    slider.press("End")
    agree(43, 43)
    page.wait_for_function("location.hash === '#pads=43'")
    page.locator("textarea").fill("card " * 80)
    agree(0, 0)
    page.locator("textarea").fill("card " * 40)  # what was asked for comes back with the room
    agree(8, 8)
    slider.press("ArrowLeft")
    agree(7, 8)
    page.locator("textarea").fill("card")
    agree(7, 47)
    page.locator("textarea").fill("")
    agree(7, 47)
    page.locator("textarea").fill("card " * 47)
    page.locator("form.playground button[type=reset]").click()
    page.wait_for_function("location.hash === ''")
    agree(3, 43)
    go(page, address(page, "#pads=47"))  # more than there is room for
    agree(43, 43)
    page.wait_for_function("location.hash === '#pads=43'")


@pytest.mark.parametrize("width", [320, 360, 700, 960, 1280])
def test_no_switch_moves_another(page, width):
    page.set_viewport_size({"width": width, "height": 740})
    places = """() => {
        const top = document.querySelector(".switches").getBoundingClientRect().top
        return [...document.querySelectorAll(".switches :is(label, select, [type=range], button)")]
            .map(one => one.getBoundingClientRect().top - top)
    }"""
    at_first = page.evaluate(places)
    for name in ("scale", "mask", "fill", "causal"):
        for option in page.locator(f"select[name={name}] option").all():
            page.locator(f"select[name={name}]").select_option(option.get_attribute("value"))
            assert page.evaluate(places) == at_first, (name, option.inner_text())
    page.set_viewport_size({"width": 1280, "height": 900})


@pytest.mark.parametrize("width", [320, 360, 700, 960, 1280])
def test_every_choice_is_read_to_its_end(page, width):
    page.set_viewport_size({"width": width, "height": 740})
    spare = page.locator("form.playground select").evaluate_all(
        """all => all.flatMap(select => {
            const pen = document.createElement("canvas").getContext("2d")
            const style = getComputedStyle(select)
            pen.font = style.font
            const padding = parseFloat(style.paddingLeft) + parseFloat(style.paddingRight)
            const arrow = 24
            return [...select.options].map(option =>
                select.clientWidth - padding - arrow - pen.measureText(option.text).width)
        })"""
    )
    assert len(spare) == 14
    assert min(spare) >= 0
    page.set_viewport_size({"width": 1280, "height": 900})


def test_a_phone_neither_zooms_nor_misses(page):
    page.set_viewport_size({"width": 360, "height": 740})
    go(page, address(page, "#pads=43"))
    letters = page.locator("form.playground :is(textarea, select)").evaluate_all(
        "all => all.map(one => parseFloat(getComputedStyle(one).fontSize))"
    )
    assert len(letters) == 5
    assert min(letters) >= 16
    targets = page.locator(
        "form.playground :is(textarea, select, button, input[type=range], input[type=checkbox],"
        " input[type=radio] + span, a)"
    ).evaluate_all("all => all.map(one => [one.getBoundingClientRect().height, one.outerHTML])")
    assert len(targets) == 23
    assert [target for target in targets if target[0] < 24] == []
    page.set_viewport_size({"width": 1280, "height": 900})


def test_on_a_phone_what_comes_of_the_typing_is_in_view(page):
    page.set_viewport_size({"width": 360, "height": 740})
    page.locator("#playground").evaluate("form => form.scrollIntoView()")
    order = [
        page.locator(selector).bounding_box()
        for selector in ("textarea", ".summary", 'figure[data-step="weights"] table', ".switches")
    ]
    assert [box["y"] for box in order] == sorted(box["y"] for box in order)
    assert order[0]["y"] >= 0
    assert order[1]["y"] + order[1]["height"] <= 440  # above the keyboard of the phone
    assert order[2]["y"] + order[2]["height"] / 2 <= 740
    page.set_viewport_size({"width": 1280, "height": 900})


def test_a_control_stays_where_it_is_while_the_picture_grows(page):
    page.set_viewport_size({"width": 360, "height": 740})
    slider = page.locator("input[name=pads]")
    slider.focus()
    before = slider.bounding_box()["y"]
    height = part(page, "result").bounding_box()["height"]
    for _ in range(4):
        page.keyboard.press("ArrowRight")
        assert slider.bounding_box()["y"] == pytest.approx(before, abs=1)
    assert part(page, "result").bounding_box()["height"] > height + 90
    page.keyboard.press("End")
    assert slider.bounding_box()["y"] == pytest.approx(before, abs=1)
    page.set_viewport_size({"width": 1280, "height": 900})


def test_no_button_covers_the_controls(page):
    page.set_viewport_size({"width": 360, "height": 740})
    page.mouse.wheel(0, 2000)
    page.wait_for_function("scrollY > 500")
    page.mouse.wheel(0, -200)
    page.wait_for_function("!document.querySelector('.md-top').hidden")
    assert not page.locator(".md-top").is_visible()
    page.set_viewport_size({"width": 1280, "height": 900})


def test_a_switch_is_described_in_words(page):
    scale = page.get_by_label("Scores divided by")
    expect(scale).to_have_accessible_description("as plain")
    scale.select_option("none")
    expect(scale).to_have_accessible_description("moves the outputs by 0.5497")
    assert part(page, "scale").get_attribute("class") == "moves"
    pads = page.locator("input[name=pads]")
    expect(pads).to_have_accessible_name("Pads")
    expect(pads).to_have_accessible_description("moves the outputs by 0.0000")
    page.locator("select[name=causal]").select_option("diagonal")
    expect(page.get_by_label("Causal mask")).to_have_accessible_description("changes what is nan")


@pytest.mark.parametrize("has_clipboard", [True, False])
def test_the_link_is_copied_and_says_so(page, has_clipboard):
    page.evaluate(
        """(works) => Object.defineProperty(navigator, "clipboard", { value: works
            ? { writeText: async (text) => { window.copied = text } } : undefined })""",
        has_clipboard,
    )
    page.locator("select[name=scale]").select_option("none")
    length = page.evaluate("history.length")
    part(page, "link").click()
    said = "The link is copied." if has_clipboard else "The address bar has the link."
    expect(part(page, "copied")).to_have_text(said)
    assert part(page, "copied").is_visible()
    assert part(page, "status").text_content() == said
    assert page.url.endswith("#scale=none")
    assert page.evaluate("window.copied ?? null") == (page.url if has_clipboard else None)
    assert page.evaluate("history.length") == length
    page.locator("select[name=scale]").select_option("d")
    assert part(page, "copied").text_content() == ""  # another state


def test_the_link_is_a_link(page):
    page.locator("select[name=scale]").select_option("none")
    with page.context.expect_page() as opened:
        part(page, "link").click(modifiers=["Control"])
    opened.value.wait_for_load_state()
    assert opened.value.url.endswith("playground.html#scale=none")
    opened.value.close()
    assert part(page, "copied").text_content() == ""


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_moves_when_the_numbers_come(browser, built_site, width):
    context = browser.new_context(viewport={"width": width, "height": 900})
    page = context.new_page()
    page.route("**/playground*.js", lambda route: (time.sleep(0.3), route.continue_()))
    page.add_init_script(
        """window.moved = []
        new PerformanceObserver((seen) => moved.push(...seen.getEntries().map((e) => e.value)))
            .observe({ type: "layout-shift", buffered: true })"""
    )
    page.goto(f"{built_site.as_uri()}/playground.html")
    page.wait_for_function("document.querySelector('figure[data-step=weights] td')")
    page.evaluate("new Promise((drawn) => setTimeout(() => requestAnimationFrame(drawn), 100))")
    # The table of tokens moved it by 0.02. A word in another font, come late, is less than this.
    assert sum(page.evaluate("moved")) < 0.001
    context.close()


@pytest.mark.parametrize("width", [360, 1280])
def test_the_widest_state_does_not_widen_the_page(page, width):
    page.set_viewport_size({"width": width, "height": 740})
    long = "x" * 400 + " card" * 60
    page.locator("textarea").fill(long)
    page.locator("input[value=all]").check(force=True)
    for numbers in (False, True):
        page.locator("input[name=numbers]").set_checked(numbers)
        scroll, client = page.evaluate(
            "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
        assert scroll <= client
    page.set_viewport_size({"width": 1280, "height": 900})


def test_it_prints(page):
    page.emulate_media(media="print")
    assert page.locator('figure[data-step="weights"]').is_visible()
    assert not page.locator("form.playground button[type=reset]").is_visible()
    page.emulate_media(media="screen")


def test_without_scripts_the_still_picture_is_there(browser, built_site):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{built_site.as_uri()}/playground.html")
    assert not page.locator("form.playground").is_visible()
    assert page.locator("#out-playground-still table").is_visible()
    assert "The form needs scripts" in page.locator("noscript").inner_text()
    context.close()
