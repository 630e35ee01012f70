"""The pytest plugin: what pytest-codeblocks collects in the scripts' folder, the engine runs.

pytest-codeblocks alone runs a block in pytest's own process, where print options and random
states leak from one to the next, and compares to the letter. A project asks for this plugin by
`-p selfattn.fresh.pytest_plugin`.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_codeblocks.plugin import TestBlock

from selfattn.fresh.batch import Result, run_all
from selfattn.fresh.check import judge, owners
from selfattn.fresh.fault import Stale
from selfattn.fresh.settings import Settings
from selfattn.fresh.snippet import Snippet, SnippetError, parse


def pytest_itemcollected(item: pytest.Item) -> None:
    """Hand an item over to the engine if it lies in the scripts' folder."""
    if isinstance(item, TestBlock):
        if _SCRIPTS not in item.config.stash:
            item.config.stash[_SCRIPTS] = Scripts(item.config.rootpath)
        scripts = item.config.stash[_SCRIPTS]
        if scripts.owns(item.path):
            item.runtest = lambda: scripts.test(item)
            item.repr_failure = lambda excinfo: _failure(item, excinfo)


class Scripts:
    """The scripts of one session; the first that is tested starts them all."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.settings = _settings(root)
        self._pages = owners(root / self.settings.docs, root)
        self._results: dict[str, Result] | None = None

    def owns(self, path: Path) -> bool:
        return path.parent == self.root / self.settings.snippets

    def test(self, item: pytest.Item) -> None:
        snippet = parse(item.path, self.root)
        if self._results is None:
            paths = [i.path for i in item.session.items if isinstance(i, TestBlock)]
            self._results = run_all(self._readable(filter(self.owns, paths)), self.settings)
        result = self._results[snippet.name]
        page = self._pages.get(snippet.name, "")
        fault = judge(result, page, recorded_is_fault=self.settings.recorded_is_fault)
        if fault:
            raise Stale([fault])
        if result.missing:
            hints = "; ".join(self.settings.needs[name].hint for name in result.missing)
            pytest.skip(f"needs {', '.join(result.missing)}: {hints}")

    def _readable(self, paths: Iterable[Path]) -> Iterator[Snippet]:
        for path in paths:
            try:
                yield parse(path, self.root)
            except SnippetError:
                continue  # its own test says so


_SCRIPTS = pytest.StashKey[Scripts]()


def _settings(root: Path) -> Settings:
    if not (root / "mkdocs.yml").exists():
        return Settings(root)
    from selfattn.fresh.mkdocs_plugin import load

    return load(root / "mkdocs.yml")[1].settings


def _failure(item: Any, excinfo: pytest.ExceptionInfo[BaseException]) -> Any:
    if isinstance(excinfo.value, (Stale, SnippetError)):
        return str(excinfo.value)
    return pytest.Item.repr_failure(item, excinfo)
