"""Render the executed fences of a page: markdown-exec shows source and output, figures follow."""

from collections.abc import Mapping
from typing import Any

import markdown_exec
from markdown import Markdown
from markupsafe import Markup

from selfattn.fresh import page as pages
from selfattn.fresh import prose, report
from selfattn.fresh.batch import Result
from selfattn.fresh.fault import UPDATE
from selfattn.fresh.printed import printed
from selfattn.fresh.run import Output
from selfattn.fresh.settings import Settings

FOR_CODE = ("pymdownx.superfences", "pymdownx.highlight")
"""The Markdown extensions that blocks of code need, of all that a site has."""


class Blocks:
    """Renders fences, given the results of their scripts; for one build."""

    def __init__(
        self, markdown: Markdown, settings: Settings, results: Mapping[str, Result]
    ) -> None:
        """Take a Markdown instance with `FOR_CODE`, the site's settings, and the results.

        The results may still be missing; they must be there when a fence is rendered.
        """
        self._markdown = markdown
        self._settings = settings
        self._results = results

    def render(self, **options: Any) -> Markup:
        """Render an executed fence: markdown-exec shows source and output, figures follow."""
        extra = options.pop("extra", {})
        script, section = options["session"], extra.pop("section", "")
        output, notes = self._output(script, section)
        if not output.text:
            options["result"] = ""  # no empty box
        html: str
        if options["source"].startswith("tabbed") or (output.text and not options["result"]):
            html = markdown_exec.base_format(
                language=pages.LANGUAGE, run=lambda code, **_: output.text, extra=extra, **options
            )
        else:
            html = self._code_blocks(output.text, extra, **options)
        return Markup(report.executed(html, prose.anchor(script, section), output, notes))

    def _code_blocks(
        self, text: str, extra: dict[str, str], *, code: str, source: str, result: str, **_: Any
    ) -> str:
        """Do what `base_format` does, where all there is to show is code.

        It makes a Markdown instance with all of the site's extensions for each fence, which would
        take longer than all else this plugin does.
        """
        markdown = markdown_exec.code_block(result, text) if result else ""
        if source:
            markdown = markdown_exec.add_source(
                source=code,
                location=source,
                output=markdown,
                language=pages.LANGUAGE,
                tabs=("", ""),
                **extra,
            )
        return str(self._markdown.reset().convert(markdown))

    def _output(self, script: str, name: str) -> tuple[Output, list[str]]:
        result = self._results.get(script)
        section = result.snippet.section(name) if result else None
        if result is None or section is None:
            return Output("nothing ran: see the errors of this build\n"), []
        if result.missing:
            text = printed(result, section)
            return Output(text), [report.missing(result, self._settings)] if text else []
        output = result.run.outputs.get(name)
        if output is None:
            return Output(f"{result.run.fault}\n"), []
        new = result.snippet.recorded is None and output.text
        return output, [f"Not recorded yet: {UPDATE} {result.snippet.path}"] if new else []
