"""What a site sets for its scripts: the options of the `fresh` plugin in mkdocs.yml."""

import importlib
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Need:
    """Something that a script cannot run without and that may not be there.

    Attributes:
        check: `module:function`; its result says whether it is there.
        hint: what would make it be there, in words.
    """

    check: str
    hint: str


@dataclass(frozen=True)
class Settings:
    """One site's settings.

    Attributes:
        root: the folder of mkdocs.yml; paths are relative to it, scripts run in it.
        docs, snippets: the folders of the pages and of the scripts.
        cache: the folder of remembered results.
        preload: modules that the fork server loads once for all scripts; none of the project's own.
        notices: regular expressions for lines on stderr that are no fault.
        fingerprint: `module:function` that describes, in a word or two, what the scripts may look
            for and not find; results are remembered for one description only.
        needs: by name.
        executor: `module:function` that returns the `concurrent.futures` executor to run scripts
            on, a new one for each build, which shuts it down; a pool of threads, one a core, when
            empty.
        recorded_is_fault: whether a script that could not run for want of something is at fault.
    """

    root: Path
    docs: str = "docs"
    snippets: str = "snippets"
    cache: str = ".cache/fresh"
    preload: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    fingerprint: str = ""
    needs: Mapping[str, Need] = field(default_factory=dict)
    executor: str = ""
    recorded_is_fault: bool = False

    def describe(self) -> str:
        """Call the fingerprint; empty when the site has none."""
        return str(resolve(self.fingerprint)()) if self.fingerprint else ""

    def start_executor(self) -> Executor:
        """Make the executor that runs the scripts."""
        if self.executor:
            made: Executor = resolve(self.executor)()
            return made
        return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="fresh")

    def missing(self, needs: tuple[str, ...]) -> list[str]:
        """Give the names of those needs that are not there.

        Raises:
            ValueError: a need that the settings do not know.
        """
        for name in needs:
            if name not in self.needs:
                known = ", ".join(self.needs) or "none"
                raise ValueError(f"unknown need {name!r}; mkdocs.yml lists: {known}")
        return [name for name in needs if not resolve(self.needs[name].check)()]


def resolve(reference: str) -> Callable[[], Any]:
    """Import what `module:function` names.

    Raises:
        ValueError: it has another form, or names nothing.
    """
    module, _, name = reference.partition(":")
    try:
        function: Callable[[], Any] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"expected module:function in mkdocs.yml, got {reference!r}: {error}"
        ) from error
    return function
