"""The pictures that change, on the built pages: what they show, and how they are worked."""

import itertools
import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from frames_on_page import numbers, pictures, words
from torch import nn

from selfattn.text import tokenize, vocab

MOVING = {
    "average": ["average-mix"],
    "projections": ["projections-score", "projections-lookup"],
    "scale": ["scale-width"],
    "padding-mask": ["padding-pads"],
    "causal-mask": ["causal-edit", "causal-rows"],
    "order": ["order-words"],
    "pytorch": ["pytorch-cases"],
    "square": ["square-memory"],
}
TOKENS = tokenize("Where is my card?")
PHONE = {"width": 360, "height": 780}


@pytest.fixture(scope="module")
def built(built_site):
    found = {}
    for path in sorted(built_site.glob("*.html")):
        for picture in pictures(path.read_text(encoding="utf-8")):
            assert picture.name not in found, f"{picture.name} is on two pages"
            found[picture.name] = picture
    return found


def layers(dim):
    """The lesson's seeded layers: x for any words, and the three projections."""
    torch.manual_seed(42)
    embedding = nn.Embedding(len(vocab), dim, padding_idx=0)
    return embedding.weight.detach(), *(nn.Linear(dim, dim).requires_grad_(False) for _ in "qkv")


def vectors(embedding, tokens, pads=0):
    return torch.stack([embedding[vocab[token]] for token in tokens] + [embedding[0]] * pads)


def close(shown, expected, decimals):
    torch.testing.assert_close(
        torch.tensor(shown),
        torch.as_tensor(expected, dtype=torch.float),
        rtol=0,
        atol=0.51 * 10**-decimals,
    )


# What is on the pages


@pytest.mark.parametrize("page", MOVING)
def test_pictures_are_where_they_belong(built_site, page):
    html = (Path(built_site) / f"{page}.html").read_text(encoding="utf-8")
    assert [picture.name for picture in pictures(html)] == MOVING[page]


def test_every_frame_is_on_the_page_and_says_what_it_shows(built):
    for picture in built.values():
        assert set(picture.frames) == set(itertools.product(*picture.choices)), picture.name
        assert picture.start in picture.frames, picture.name
        captions = [words(f.find(".//figcaption")) for f in picture.frames.values()]
        assert all(captions)
        assert len(set(captions)) == len(captions), picture.name


def test_no_two_rows_of_buttons_share_a_name(built):
    groups = [group for picture in built.values() for group in picture.groups]
    assert len(groups) == len(set(groups)) == sum(len(p.choices) for p in built.values())


def test_names_start_with_their_page_and_do_not_meet_an_id(built_site):
    for page in MOVING:
        html = (Path(built_site) / f"{page}.html").read_text(encoding="utf-8")
        for picture in pictures(html):
            assert html.count(f'id="{picture.name}"') == 1


# What the pictures show


def test_average(built):
    embedding, *_ = layers(4)
    x = vectors(embedding, TOKENS)
    for (token, kind), frame in built["average-mix"].frames.items():
        i = TOKENS.index(token)
        raw = [math.exp(sum(a * b for a, b in zip(x[i], row, strict=True))) for row in x]
        row = {
            "its own row": [score / sum(raw) for score in raw],
            "all on itself": [float(j == i) for j in range(5)],
            "even": [0.2] * 5,
        }[kind]
        close(numbers(frame, ".//td[@class='weight']"), row, 2)
        mixed = [sum(w * float(x[j, n]) for j, w in enumerate(row)) for n in range(4)]
        close(numbers(frame, ".//tfoot//td[@style]"), mixed, 2)
        away = math.dist(mixed, x[i].tolist())
        assert f"{away:.2f} away" in words(frame.find(".//figcaption"))


def test_score(built):
    embedding, query, key, _ = layers(4)
    x = vectors(embedding, TOKENS)
    for (asks, asked), frame in built["projections-score"].frames.items():
        q, k = query(x[TOKENS.index(asks)]), key(x[TOKENS.index(asked)])
        terms = [float(a) * float(b) for a, b in zip(q, k, strict=True)]
        close(numbers(frame, ".//tr[@class='q']/td[@style]"), q, 2)
        close(numbers(frame, ".//tr[@class='k']/td[@style]"), k, 2)
        close(numbers(frame, ".//tbody/tr[3]/td"), [*terms, sum(terms)], 2)


def test_lookup(built):
    embedding, query, key, value = layers(4)
    x = vectors(embedding, TOKENS)
    q, k, v = query(x[3:4]), key(x), value(x)
    for (times,), frame in built["projections-lookup"].frames.items():
        if times == "only the best":
            expected = v[(k @ q[0]).argmax()]
        else:
            expected = F.scaled_dot_product_attention(q, k, v, scale=float(times) / 2)[0]
        close(numbers(frame, ".//tfoot//td[@style]"), expected, 2)


def test_scale(built):
    identity = torch.eye(16).expand(256, 16, 16)
    for (width,), frame in built["scale-width"].frames.items():
        d = int(width.replace(",", ""))
        generator = torch.Generator().manual_seed(42)
        q, k = (torch.randn(256, 16, d, generator=generator) for _ in "qk")
        scales = {"nothing": 1, "√d": d**-0.5, "√length": 1 / 4, "d": 1 / d}
        cards = frame.findall(".//div[@class='beside']/div")
        for card, (name, scale) in zip(cards, scales.items(), strict=True):
            head = "not divided" if name == "nothing" else f"divided by {name} = "
            assert words(card.find("p")).startswith(head)
            w = F.scaled_dot_product_attention(q, k, identity, scale=scale)
            rows = w.flatten(0, 1)
            largest = rows.amax(-1)
            typical = (largest - largest.mean()).abs().argmin()
            close(numbers(card, ".//li"), rows[typical], 3)
            entropy = -(w * w.clamp_min(1e-38).log()).sum(-1).mean() / math.log(16)
            slopes = (w * (1 - w)).sum(-1).mean()
            expected = [w.max(-1).values.mean(), entropy, slopes]
            close(numbers(card, ".//tbody//td"), expected, 2)


def test_padding(built):
    embedding, query, key, value = layers(16)
    alone = None
    for (pads, kind), frame in built["padding-pads"].frames.items():
        n = int(pads)
        x = vectors(embedding, TOKENS, n)
        q, k, v = query(x), key(x), value(x)
        may_look = torch.ones(5 + n, 5 + n, dtype=torch.bool)
        if kind == "padding mask":
            may_look[:, 5:] = False
        if kind == "filled with 0.0":
            k = torch.cat([k[:5], torch.zeros(n, 16)])  # a key of zeros scores 0.0
        output = F.scaled_dot_product_attention(q, k, v, attn_mask=may_look)
        alone = output[:5] if alone is None else alone
        shown = numbers(frame, ".//table[@class='bars']//td[@style]")
        close(shown, (output[:5] - alone).abs().amax(-1), 4)
        last_row = [words(td) for td in frame.findall(".//table[@class='heatmap']/tbody/tr[6]/td")]
        assert len(last_row) == (6 if n else 0)
        assert (last_row == ["nan"] * 6) == (n > 0 and kind == "rows blocked")


def test_causal_rows(built):
    embedding, query, key, _ = layers(16)
    x = vectors(embedding, TOKENS)
    weights = F.scaled_dot_product_attention(query(x), key(x), torch.eye(5), is_causal=True)
    for (token,), frame in built["causal-rows"].frames.items():
        i = TOKENS.index(token)
        marked = frame.findall(".//tr[@class='current']")
        assert [words(row.find("th")) for row in marked] == [token]
        close([float(words(td)) for td in marked[0].findall("td[@style]")], weights[i, : i + 1], 2)
        assert len(marked[0].findall("td[@class='masked']")) == 4 - i


def test_causal_edit(built):
    embedding, query, key, value = layers(16)

    def output(last, causal):
        x = vectors(embedding, [*TOKENS[:4], last])
        return F.scaled_dot_product_attention(query(x), key(x), value(x), is_causal=causal)

    for (last, kind), frame in built["causal-edit"].frames.items():
        causal = kind == "causal mask"
        moved = (output(last, causal) - output("?", causal)).abs().amax(-1)
        close(numbers(frame, ".//tbody//td"), moved, 4)


def test_search_leaves_them_out(built_site):
    index = (built_site / "search" / "search_index.json").read_text(encoding="utf-8")
    assert "its output moved by" not in index
    assert "Times 0 all keys are alike" in index  # what follows a picture is found


# How they are worked


def shown(picture):
    """The places of the frames in view, among all of a picture."""
    return picture.evaluate(
        """(picture) => [...picture.querySelectorAll('.frame')]
            .flatMap((frame, i) => frame.checkVisibility() ? [i] : [])"""
    )


@pytest.mark.parametrize("page", MOVING)
def test_every_choice_shows_its_frame_and_fits_a_phone(on_disk, page):
    on_disk.page.set_viewport_size(PHONE)
    on_disk.open(page)
    for picture in on_disk.page.locator(".frames").all():
        rows = [row.get_by_role("radio").all() for row in picture.locator("fieldset").all()]
        for i, chosen in enumerate(itertools.product(*rows)):
            for button in chosen:
                button.check()
            assert shown(picture) == [i]
            wide = on_disk.page.evaluate(
                """[document.documentElement, ...document.querySelectorAll('.frames .heat-scroll')]
                    .map((box) => box.scrollWidth - box.clientWidth)"""
            )
            assert max(wide) <= 1, [button.evaluate("(b) => b.name") for button in chosen]
    assert on_disk.seen == []


@pytest.mark.parametrize("page", MOVING)
def test_buttons_are_large_enough_to_touch(on_disk, page):
    on_disk.page.set_viewport_size(PHONE)
    on_disk.open(page)
    for label in on_disk.page.locator(".frames label").all():
        box = label.bounding_box()
        # Above the 24 of WCAG 2.2; taller ones would push the picture out of view.
        assert min(box["width"], box["height"]) >= 30, label.inner_text()


@pytest.mark.parametrize("page", MOVING)
def test_arrow_keys_choose(on_disk, page):
    on_disk.page.set_viewport_size(PHONE)
    on_disk.open(page)
    for picture in on_disk.page.locator(".frames").all():
        for row in picture.locator("fieldset").all():
            buttons = row.get_by_role("radio")
            buttons.first.check()
            buttons.first.focus()
            before = shown(picture)
            on_disk.page.keyboard.press("ArrowRight")
            assert buttons.nth(1).is_checked()
            assert len(shown(picture)) == 1
            assert shown(picture) != before
            on_disk.page.keyboard.press("ArrowLeft")
            assert shown(picture) == before


def test_hidden_frames_are_hidden_from_screen_readers(on_disk):
    on_disk.open("causal-mask")
    picture = on_disk.page.locator("#causal-rows")
    for token in ("where", "card"):
        picture.get_by_role("radio", name=token, exact=True).check()
        spoken = picture.aria_snapshot()
        assert spoken.count("- table") == 1
        assert f"Row of “{token}”:" in spoken
        assert f'radio "{token}" [checked]' in spoken


def test_without_scripts_the_buttons_work(browser, built_site):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    for name in MOVING:
        page.goto((built_site / f"{name}.html").as_uri())
        for picture in page.locator(".frames").all():
            visible = picture.locator(".frame:visible")
            assert visible.count() == 1
            first = visible.inner_text()
            picture.locator("label:not(:has(:checked))").last.click()
            assert visible.count() == 1
            assert visible.inner_text() != first
    context.close()


def test_paper_gets_one_frame_and_no_buttons(on_disk):
    on_disk.open("padding-mask")
    on_disk.page.emulate_media(media="print")
    picture = on_disk.page.locator("#padding-pads")
    assert picture.locator("fieldset:visible").count() == 0
    assert picture.locator(".frame:visible").count() == 1
    assert picture.locator("figcaption:visible").count() == 1
    on_disk.page.emulate_media(media="screen")
