"""The MkDocs plugin: runs the scripts that pages show, and fails the build on any fault.

markdown-exec goes on rendering the fences; this plugin only replaces what runs their code.
"""

import logging
import os
from concurrent.futures import Future, ThreadPoolExecutor
from html import escape
from pathlib import Path
from typing import Any, Literal

import markdown_exec
from markupsafe import Markup
from mkdocs.config import config_options
from mkdocs.config.base import Config
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.plugins import BasePlugin
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

from selfattn.fresh import page as pages
from selfattn.fresh.run import Figure, Output, Run, run
from selfattn.fresh.snippet import Snippet, SnippetError, parse


class FreshConfig(Config):
    """The plugin's options in mkdocs.yml."""

    snippets = config_options.Type(str, default="snippets")
    """The folder of the scripts, relative to mkdocs.yml."""


class FreshPlugin(BasePlugin[FreshConfig]):
    """Connects pages to scripts; see the module's docstring."""

    def __init__(self) -> None:
        self._serving = False
        self._faults: list[str] = []
        self._snippets: dict[str, Snippet] = {}
        self._runs: dict[str, Future[Run]] = {}

    def on_startup(self, *, command: Literal["build", "gh-deploy", "serve"], dirty: bool) -> None:
        self._serving = command == "serve"

    def on_config(self, config: MkDocsConfig) -> None:
        self._root = Path(config.config_file_path).parent
        self._faults, self._snippets, self._runs = [], {}, {}
        markdown_exec.formatters["python"] = self._format
        if config.strict:
            # Strict builds count warnings; under --quiet they would be dropped before that.
            logger = logging.getLogger("mkdocs")
            logger.setLevel(min(logger.getEffectiveLevel(), logging.WARNING))

    def on_files(self, files: Files, *, config: MkDocsConfig) -> None:
        """Start all scripts that any page names, so that they run beside the rendering."""
        names = {
            fence.script: None
            for file in files.documentation_pages()
            for fence in pages.fences(file.content_string)
            if fence.script
        }
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for name in names:
                snippet = self._read(name)
                if snippet:
                    self._snippets[name] = snippet
                    self._runs[name] = pool.submit(run, snippet, self._root)
        self._faults += [str(r.result().fault) for r in self._runs.values() if r.result().fault]

    def _read(self, name: str) -> Snippet | None:
        path = self._root / self.config.snippets / f"{name}.md"
        if not path.exists():
            return None  # each fence that names it is a fault, with its page and line
        try:
            return parse(path.relative_to(self._root))
        except SnippetError as error:
            self._faults.append(str(error))
            return None

    def on_page_markdown(
        self, markdown: str, *, page: Page, config: MkDocsConfig, files: Files
    ) -> str:
        above = page.file.content_string.count("\n") - markdown.count("\n")  # front matter

        def code(fence: pages.Fence) -> str:
            problem = self._problem(fence)
            if problem:
                place = f"{config.docs_dir}/{page.file.src_uri}:{above + fence.first + 1}"
                self._faults.append(f"{os.path.relpath(place, self._root)}: {problem}")
                return fence.body
            section = self._snippets[fence.script].section(fence.section)
            return section.code if section else ""

        return pages.fill(markdown, code)

    def _problem(self, fence: pages.Fence) -> str:
        """Say what is wrong with an executed fence; empty when nothing is."""
        folder = self.config.snippets
        if not fence.script:
            return f'expected `--8<-- "script.md:section"` alone in the fence, got {fence.body!r}'
        if f'session="{fence.script}"' not in fence.info:
            return f'expected session="{fence.script}" in the fence\'s options, got {fence.info!r}'
        if not (self._root / folder / f"{fence.script}.md").exists():
            return f"no script {folder}/{fence.script}.md; write it, or correct the name"
        snippet = self._snippets.get(fence.script)
        if snippet is None:
            return f"{folder}/{fence.script}.md cannot be read; see its own error"
        if snippet.section(fence.section) is None:
            names = ", ".join(s.name for s in snippet.sections if not s.hidden)
            return f"no section {fence.section!r} in {snippet.path}; it has: {names}"
        return ""

    def on_env(self, env: Any, *, config: MkDocsConfig, files: Files) -> None:
        """End the build if anything went wrong. While serving, the pages say it instead."""
        if self._faults and not self._serving:
            count = f"{len(self._faults)} fault{'s' if len(self._faults) > 1 else ''}"
            raise PluginError("\n\n".join([f"{count} in pages and scripts", *self._faults]))
        for fault in self._faults:
            logging.getLogger("mkdocs.plugins.fresh").warning(fault)

    def _format(self, **options: Any) -> Markup:
        """Render an executed fence: markdown-exec shows source and output, figures follow."""
        extra = options.pop("extra", {})
        output = self._output(options["session"], extra.pop("section", ""))
        if not output.text:
            options["result"] = ""  # no empty box
        html = markdown_exec.base_format(
            language="python", run=lambda code, **_: output.text, extra=extra, **options
        )
        return html + Markup("").join(map(_placed, output.figures))

    def _output(self, script: str, section: str) -> Output:
        future = self._runs.get(script)
        if future is None:
            return Output("no such script\n")
        done = future.result()
        return done.outputs.get(section, Output(f"{done.fault or 'no such section'}\n"))


def _placed(figure: Figure) -> Markup:
    label = escape(figure.alt)
    return Markup(f'<div class="shown" role="group" aria-label="{label}">{figure.html}</div>')
