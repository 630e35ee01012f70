"""The MkDocs plugin: runs the scripts that pages show, and fails the build on any fault.

markdown-exec goes on rendering the fences; this plugin only replaces what runs their code.
"""

import json
import logging
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import markdown_exec
from markdown import Markdown
from mkdocs.config import config_options, load_config
from mkdocs.config.base import Config
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.livereload import LiveReloadServer
from mkdocs.plugins import BasePlugin, event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from selfattn.fresh import bindings, process, prose, report
from selfattn.fresh import page as pages
from selfattn.fresh.batch import Result, run_all
from selfattn.fresh.cache import Cache
from selfattn.fresh.check import judge, order_faults, owners
from selfattn.fresh.fault import Fault, Stale
from selfattn.fresh.render import FOR_CODE, Blocks
from selfattn.fresh.settings import Need, Settings
from selfattn.fresh.sheet import Sheet
from selfattn.fresh.snippet import Snippet, SnippetError, parse

log = logging.getLogger("mkdocs.plugins.fresh")


class NeedConfig(Config):
    """One entry of `needs`."""

    check = config_options.Type(str)
    hint = config_options.Type(str)


class FreshConfig(Config):
    """The plugin's options in mkdocs.yml; see `selfattn.fresh.settings.Settings`."""

    snippets = config_options.Type(str, default="snippets")
    cache = config_options.Type(str, default=".cache/fresh")
    preload = config_options.ListOfItems(config_options.Type(str), default=[])
    notices = config_options.ListOfItems(config_options.Type(str), default=[])
    fingerprint = config_options.Type(str, default="")
    needs = config_options.DictOfItems(config_options.SubConfig(NeedConfig), default={})
    executor = config_options.Type(str, default="")
    recorded = config_options.Choice(("mark", "fault"), default="mark")


class FreshPlugin(BasePlugin[FreshConfig]):
    """Connects pages to scripts; see the module's docstring.

    Attributes:
        afresh: names of scripts whose results do not come from the cache; None means all.
        faults: of the last build.
        results: of the last build, by script.
        sheets: of the last build, by page.
        bindings: of the site, by page.
    """

    def __init__(self) -> None:
        self.afresh: set[str] | None = set()
        self.faults: list[Fault] = []
        self.results: dict[str, Result] = {}
        self.sheets: dict[str, Sheet] = {}
        self.bindings: bindings.Bindings = {}
        self._serving = False

    def on_startup(self, *, command: Literal["build", "gh-deploy", "serve"], dirty: bool) -> None:
        self._serving = command == "serve"

    def on_config(self, config: MkDocsConfig) -> None:
        if "markdown-exec" not in config.plugins:
            raise PluginError("`fresh` needs the plugin `markdown-exec` before it in mkdocs.yml")
        self.settings = self._settings(config)
        self.faults, self.results, self.sheets = [], {}, {}
        markdown = Markdown(extensions=FOR_CODE, extension_configs=config.mdx_configs)
        blocks = Blocks(markdown, self.settings, self.results)
        markdown_exec.formatters[pages.LANGUAGE] = blocks.render
        folder = str(self.settings.root / self.settings.snippets)
        if folder not in config.watch:
            config.watch.append(folder)
        if config.strict:
            # Strict builds count warnings; under --quiet they would be dropped before that.
            logger = logging.getLogger("mkdocs")
            logger.setLevel(min(logger.getEffectiveLevel(), logging.WARNING))

    def _settings(self, config: MkDocsConfig) -> Settings:
        root = Path(config.config_file_path).parent
        needs = {name: Need(need.check, need.hint) for name, need in self.config.needs.items()}
        return Settings(
            root=root,
            docs=os.path.relpath(config.docs_dir, root),
            snippets=self.config.snippets,
            cache=self.config.cache,
            preload=tuple(self.config.preload),
            notices=tuple(self.config.notices),
            fingerprint=self.config.fingerprint,
            needs=needs,
            executor=self.config.executor,
            recorded_is_fault=self.config.recorded == "fault",
        )

    @event_priority(100)  # before those who make pages of the results
    def on_files(self, files: Files, *, config: MkDocsConfig) -> None:
        """Get the results of all scripts that pages name."""
        settings = self.settings
        shown = owners(settings.root / settings.docs, settings.root)
        snippets = self._read(shown)
        self._corpus = settings.describe()
        cache = self._cache(snippets)
        self.results.update(run_all(snippets, settings, cache))
        folder = settings.root / settings.snippets
        self.bindings, faults = bindings.load(folder, settings.root)
        self.faults += faults
        for name, result in self.results.items():
            fault = judge(result, shown[name], recorded_is_fault=settings.recorded_is_fault)
            if fault:
                self.faults.append(fault)

    def _cache(self, snippets: list[Snippet]) -> Cache:
        settings = self.settings
        # With the notices: what they let pass may not be let pass any more.
        fingerprint = json.dumps([self._corpus, settings.notices, settings.preload])
        skip = self.afresh if self.afresh is not None else {s.name for s in snippets}
        return Cache(settings.root / settings.cache, settings.root, fingerprint, skip)

    def _read(self, shown: dict[str, str]) -> list[Snippet]:
        """Read all scripts; those that no page shows are faults, and do not run."""
        found = []
        folder = self.settings.root / self.settings.snippets
        for path in sorted(folder.rglob("*.md")):
            relative = path.relative_to(self.settings.root)
            if path.parent != folder:
                message = f"a script must lie directly in {self.settings.snippets}"
                self.faults.append(Fault(relative, 1, message))
                continue
            if path.stem not in shown:
                self.faults.append(Fault(relative, 1, "no page shows this script; show it"))
                continue
            try:
                found.append(parse(path, self.settings.root))
            except SnippetError as error:
                self.faults.append(error.fault)
        return found

    def on_page_markdown(
        self, markdown: str, *, page: Page, config: MkDocsConfig, files: Files
    ) -> str:
        """Look at the fences, mark the numbers, and put the sections' code into the fences."""
        if not _written(page):
            return markdown
        text = page.file.content_string
        above = text.count("\n") - markdown.count("\n")  # the front matter is cut from the top
        path = self._path(page.file)
        sheet = Sheet(path, text, above, page.meta, results=self.results)
        sheet.known = self.bindings.get(str(path), ())
        self.sheets[page.file.src_uri] = sheet
        hidden = pages.in_comments(markdown)
        for fence in pages.blocks(markdown):
            line = above + fence.first + 1
            if problem := self._problem(fence, fence.first in hidden):
                sheet.faults.append(Fault(path, line, problem))
                sheet.broken = sheet.broken or fence.executed
            elif fence.executed:
                sheet.shown.append((fence.script, fence.section, line))
        return pages.fill(prose.mark(markdown, above, sheet.claims), self._code)

    def _path(self, file: File) -> Path:
        return Path(os.path.relpath(file.abs_src_path or file.src_uri, self.settings.root))

    def _problem(self, fence: pages.Fence, hidden: bool) -> str:
        """Say what is wrong with a fence; empty when nothing is."""
        problem = fence.problem()
        if problem or not fence.executed:
            return "" if hidden and not fence.executed else problem
        if hidden:
            return "this fence stands in an HTML comment, where it would be executed all the same"
        folder = self.settings.snippets
        if fence.script not in self.results:
            path = f"{folder}/{fence.script}.md"
            if (self.settings.root / path).exists():
                return f"{path} cannot be read; see its own error"
            return f"no script {path}; write it, or correct the name"
        snippet = self.results[fence.script].snippet
        if snippet.section(fence.section) is None:
            names = ", ".join(s.name for s in snippet.sections if not s.hidden)
            return f"no section {fence.section!r} in {snippet.path}; it has: {names}"
        return ""

    def _code(self, fence: pages.Fence) -> str:
        result = self.results.get(fence.script)
        section = result.snippet.section(fence.section) if result else None
        if section:
            return section.code
        # pymdownx.snippets would end the build at a wrong include, before all faults are listed.
        return "" if "--8<--" in fence.body else fence.body

    @event_priority(-50)  # after those who count the page's words
    def on_page_content(self, html: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
        """Judge the numbers, and end the page with where everything on it comes from."""
        if not _written(page):
            return html
        sheet = self.sheets[page.file.src_uri]
        chosen = list(map(sheet.choose, sheet.claims, sheet.bound))

        def show(index: int, text: str) -> str:
            source = chosen[index]
            return prose.element(text, source) if source else text

        html, in_code = prose.place(html, show)
        grounded = []
        for index, (claim, binding, source) in enumerate(
            zip(sheet.claims, sheet.bound, chosen, strict=True)
        ):
            if source:
                grounded.append((claim.number.text, source))
            elif index not in in_code and sheet.complete:
                sheet.faults.append(sheet.ungrounded(claim, binding))
        sheet.faults += [*sheet.alt_faults(), *_unrendered(sheet, html)]
        self.faults += sheet.faults
        results = [self.results[script] for script in sheet.scripts]
        shown = [script for script, _, _ in sheet.shown]
        end = report.provenance(results, grounded, shown, self._corpus)
        return html + end if not self._serving else self._banner(sheet) + html + end

    def _banner(self, sheet: Sheet) -> str:
        """Tell of the page's own faults, its scripts', and those of no page at all."""
        named = {
            Path(self.settings.snippets, f"{fence.script}.md") for fence in pages.fences(sheet.text)
        }
        others = {Path(self.settings.snippets, bindings.FILE)}
        ours = {sheet.path, *named, *others}
        return report.banner(fault for fault in self.faults if fault.path in ours)

    def on_env(self, env: Any, *, config: MkDocsConfig, files: Files) -> None:
        """End the build if anything went wrong. While serving, the pages say it instead."""
        self._judge_order()
        if not self.faults:
            return
        if not self._serving:
            raise PluginError(str(Stale(self.faults)))
        for fault in self.faults:
            log.warning(str(fault))

    def _judge_order(self) -> None:
        """Every section is shown once, on one page and in order, or is named -check."""
        shown: dict[str, list[tuple[Path, int, str]]] = defaultdict(list)
        for sheet in self.sheets.values():
            for script, section, line in sheet.shown:
                shown[script].append((sheet.path, line, section))
        for name, result in self.results.items():
            self.faults += order_faults(result.snippet, shown[name])

    def on_serve(self, server: LiveReloadServer, *, config: MkDocsConfig, builder: Any) -> None:
        """Get ready for edits: watch the folders of all files that scripts read."""
        process.prepare(self.settings.preload)  # for the first edit
        root = self.settings.root
        read = {file for result in self.results.values() for file in result.run.files}
        for folder in sorted({(root / file).parent for file in read}):
            if folder.is_dir() and folder != root:
                server.watch(str(folder))

    def on_shutdown(self) -> None:
        process.close()


def _written(page: Page) -> bool:
    """Whether an author wrote the page; another plugin may make pages of notebooks."""
    return page.file.src_uri.endswith(".md")


def _unrendered(sheet: Sheet, html: str) -> Iterator[Fault]:
    """Find the fences that Markdown took for something else, so that nothing executed them."""
    for script, section, line in sheet.shown:
        if html.count(f'id="{prose.anchor(script, section)}"') != 1:
            message = (
                "this fence was not rendered as one: it must not be indented outside of a list or "
                "a block, and must be closed by as many ticks as it was opened with"
            )
            yield Fault(sheet.path, line, message, section)


def load(config_file: Path) -> tuple[MkDocsConfig, FreshPlugin]:
    """Read a site's configuration.

    Raises:
        ValueError: the site does not use the plugin.
    """
    config = load_config(str(config_file))
    plugin = config.plugins.get("fresh")
    if not isinstance(plugin, FreshPlugin):
        raise ValueError(f"{config_file} does not use the plugin `fresh`; add it to `plugins`")
    plugin.settings = plugin._settings(config)
    return config, plugin
