from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import pytest
from mkdocs.exceptions import PluginError

from selfattn import site


def page(minutes=1, blocks=0, section=None, content="", title="A page", file="a-page.md"):
    return SimpleNamespace(
        title=title,
        content=content,
        meta={"minutes": minutes, "blocks": blocks},
        parent=section and SimpleNamespace(title=section),
        file=SimpleNamespace(src_uri=file),
    )


def read(markdown):
    this = page()
    site.on_page_markdown(markdown, page=this, config=None, files=None)
    return this


def test_only_executed_fences_are_counted():
    this = read(
        '```python exec="on" session="a"\nx\n```\n\n'
        "```python\nx\n```\n\n"
        '````markdown\n```python exec="on"\nx\n```\n````\n\n'
        '- item\n\n    ```python exec="on" session="a"\n    x\n    ```\n'
    )
    assert this.meta["blocks"] == 2


@pytest.mark.parametrize("token", ["{{ hours }}", "{{hours}}"])
def test_an_unknown_token_ends_the_build(token):
    with pytest.raises(PluginError, match=r"a-page\.md holds \{\{ hours \}\}.*known are minutes"):
        read(f"About {token}.")


def test_counts_come_from_the_lesson_and_from_all_pages(tmp_path):
    for name in ("a.md", "b.md", "notes.txt"):
        (tmp_path / name).touch()
    answer = '<details class="answer" id="a"><summary>Answer</summary></details>'
    pages = [
        page(2, 1, file="lab-b.md"),
        page(3, 5, "The lesson", answer),
        page(7, 11, "The lesson", 2 * answer),
        page(13, 17, "Other", file="lab-a.md"),
        page(0, 0, file="lab-a-solved.ipynb"),
    ]
    assert site.site_counts(pages, tmp_path) == {
        "minutes": 10,
        "scripts": 2,
        "blocks": 34,
        "questions": 3,
        "labs": 2,
    }


def test_tokens_are_filled_on_every_page(tmp_path):
    (tmp_path / "snippets").mkdir()
    pages = [page(5, 3, "The lesson", "<p>{{ labs }}, {{minutes}}, {{ blocks }}</p>"), page()]
    config = SimpleNamespace(config_file_path=str(tmp_path / "mkdocs.yml"))
    files = SimpleNamespace(documentation_pages=lambda: [SimpleNamespace(page=p) for p in pages])
    site.on_env(None, config=config, files=files)
    assert pages[0].content == "<p>0, 5, 3</p>"


@pytest.mark.parametrize(
    ("html", "minutes"),
    [
        ("<p></p>", 1),
        (f"<p>{'word ' * 200}</p>", 1),
        (f"<p>{'word ' * 201}</p>", 2),
        (f"<pre><code>{'word ' * 101}</code></pre>", 2),
        (f"<p>{'word ' * 200}</p><pre><span>{'word ' * 100}</span></pre><p>more</p>", 3),
        (f"<pre><code>{'<span>wo</span><span>rd</span> ' * 100}</code></pre>", 1),
        (f"<figure><table><td>{'0.1 ' * 999}</td></table></figure><p>one</p>", 1),
        (f"<math>{'<mi>x</mi> ' * 999}</math>", 1),
    ],
)
def test_reading_minutes(html, minutes):
    assert site.reading_minutes(html) == minutes


def test_the_report_names_the_page():
    url = urlsplit(site.report_url("https://example.org/a/b/", page(title="Q & A")))
    assert (url.netloc, url.path) == ("example.org", "/a/b/issues/new")
    query = parse_qs(url.query)
    assert query["title"] == ["Error on the page: Q & A"]
    assert "docs/a-page.md" in query["body"][0]


@pytest.mark.parametrize(("repository", "edits"), [("https://example.org/a", "edit/"), ("", None)])
def test_repository_links_need_a_repository(repository, edits):
    config = SimpleNamespace(repo_url=repository, edit_uri="edit/")
    this = page()
    assert site.on_config(config).edit_uri == edits
    site.on_page_content("<p>word</p>", page=this, config=config, files=None)
    assert ("report_url" in this.meta) is bool(repository)


def test_a_script_that_names_a_file_is_moved_there():
    config = SimpleNamespace(site_dir="site", use_directory_urls=False, plugins=None)
    config.plugins = SimpleNamespace(_current_plugin="site")
    files, this = [], page()
    this.url = "deep/a-page.html"
    html = '<p>a</p><script data-file="assets/big.js">const a = "<b>"\n</script><script>b</script>'
    assert site.own_files(html, this, config, files) == (
        '<p>a</p><script defer src="../assets/big.js"></script><script>b</script>'
    )
    assert [(file.dest_uri, file.content_string) for file in files] == [
        ("assets/big.js", 'const a = "<b>"\n')
    ]
