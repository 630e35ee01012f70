"""The pytest plugin: what pytest-codeblocks collects in the scripts' folder, the engine runs.

pytest-codeblocks alone runs a block in pytest's own process, where print options and random
states leak from one to the next.
"""

import difflib
from pathlib import Path
from typing import Any

import pytest
from pytest_codeblocks.plugin import TestBlock

from selfattn.fresh.run import run
from selfattn.fresh.snippet import Snippet, parse


class Stale(AssertionError):
    """A script failed, or printed something else than its file records."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("fresh_snippets", "the folder of the scripts", default="snippets")


def pytest_itemcollected(item: pytest.Item) -> None:
    folder = item.config.rootpath / item.config.getini("fresh_snippets")
    if isinstance(item, TestBlock) and item.path.is_relative_to(folder):
        item.runtest = lambda: _runtest(item.path, item.config.rootpath)
        item.repr_failure = lambda excinfo: _failure(item, excinfo)


def _runtest(path: Path, root: Path) -> None:
    snippet = parse(path.relative_to(root))
    done = run(snippet, root)
    if done.fault:
        raise Stale(str(done.fault))
    fresh = "".join(done.outputs[section.name].text for section in snippet.sections)
    if fresh != snippet.recorded:
        raise Stale(difference(snippet, fresh))


def difference(snippet: Snippet, fresh: str) -> str:
    """Say where and how a fresh output differs from the recorded one: a unified diff."""
    diff = difflib.unified_diff(
        snippet.recorded.splitlines(),
        fresh.splitlines(),
        f"{snippet.path}, recorded",
        f"{snippet.path}, fresh",
        lineterm="",
    )
    return "\n".join([f"{snippet.path}:{snippet.recorded_line}: the output changed", *diff])


def _failure(item: Any, excinfo: pytest.ExceptionInfo[BaseException]) -> Any:
    if isinstance(excinfo.value, (Stale, ValueError)):
        return str(excinfo.value)
    return pytest.Item.repr_failure(item, excinfo)
