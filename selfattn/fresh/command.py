"""The commands `check` and `update`: one build of the site, in a folder that is thrown away."""

import argparse
import json
import logging
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selfattn.fresh.fault import UPDATE, Fault

if TYPE_CHECKING:
    from selfattn.fresh.mkdocs_plugin import FreshPlugin


class WrongUse(Exception):
    """The command was called in a way it does not have."""


def add_to(commands: Any) -> None:
    """Add the two commands to an argparse group of sub-commands."""
    check = commands.add_parser("check", help="run the scripts afresh and check outputs and prose")
    check.add_argument("--cached", action="store_true", help="take results from the cache")
    check.set_defaults(run=reporting(check_command))
    update = commands.add_parser("update", help="record new outputs and rewrite their numbers")
    update.add_argument("--dry-run", action="store_true", help="show the changes and make none")
    update.set_defaults(run=reporting(update_command))
    for command in (check, update):
        command.add_argument("paths", nargs="*", type=Path, help="pages and scripts; all if none")
        command.add_argument("--json", action="store_true", help="one JSON object instead of lines")
        command.add_argument(
            "-f", "--config-file", type=Path, default=Path("mkdocs.yml"), help="mkdocs.yml"
        )


def reporting(command: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """Let a command say in one line what it was asked for and does not have, with status 2."""

    def run(args: argparse.Namespace) -> int:
        try:
            return command(args)
        except WrongUse as error:
            print(f"selfattn: {error}", file=sys.stderr)
            return 2

    return run


@dataclass
class Outcome:
    """What a build found, for the files that were asked for."""

    plugin: "FreshPlugin"
    faults: list[Fault] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # of the build itself, such as a broken link
    files: list[Path] = field(default_factory=list)

    def of(self, path: Path) -> list[Fault]:
        return [fault for fault in self.faults if fault.path == path]


def check_command(args: argparse.Namespace) -> int:
    """Check; 0 when all is well, 1 when something is stale or fails."""
    outcome = build(args.config_file, args.paths, cached=args.cached)
    if args.json:
        print(json.dumps(_as_json(outcome), indent=2))
    else:
        for path in outcome.files:
            faults = outcome.of(path)
            print(
                f"{path}: {'ok' if not faults else f'{len(faults)} fault(s)'}{_note(outcome, path)}"
            )
        for text in [*map(str, outcome.faults), *outcome.problems]:
            print(f"\n{text}")
    return 1 if outcome.faults or outcome.problems else 0


def update_command(args: argparse.Namespace) -> int:
    """Update; 0 when everything asked for is true now, 1 when something is not."""
    outcome = build(args.config_file, args.paths, cached=False)
    changes, faults = plan(outcome)
    root = outcome.plugin.settings.root
    if not args.json:
        for change in changes:
            print(change.diff(root))
    changed = {change.path.relative_to(root) for change in changes}
    if not args.dry_run:
        unwritten = _write(changes, root)
        changed -= {fault.path for fault in unwritten}
        faults += unwritten
        # What is still wrong now, no change of ours could mend.
        faults = faults or build(args.config_file, args.paths, cached=True).faults
    verb = "would change" if args.dry_run else "updated"
    if args.json:
        listed = [str(path) for path in sorted(changed)]
        print(json.dumps({"changed": listed, "faults": list(map(_fault, faults))}, indent=2))
    else:
        for path in sorted({*outcome.files, *changed}):
            print(f"{path}: {verb if path in changed else 'unchanged'}")
        for fault in faults:
            print(f"\n{fault}", file=sys.stderr)
    return 1 if faults else 0


def _write(changes: list[Any], root: Path) -> list[Fault]:
    """Write files, each whole or not at all; say which could not be written."""
    from selfattn.fresh.update import write

    faults = []
    # Pages, scripts, bindings: if this is ended in between, what is left leads to the rest.
    for change in reversed(changes):
        try:
            write(change)
        except OSError as error:
            message = f"could not be written and is as it was: {error}"
            faults.append(Fault(change.path.relative_to(root), 1, message))
    return faults


def plan(outcome: Outcome) -> tuple[list[Any], list[Fault]]:
    """Find the changes that would make the files true, and what no change of ours can mend."""
    from selfattn.fresh import bindings
    from selfattn.fresh.update import Change, read, record, rewrite

    plugin, settings = outcome.plugin, outcome.plugin.settings
    changes: list[Change] = []
    faults: list[Fault] = []
    for result in plugin.results.values():
        if result.snippet.path in outcome.files and not result.missing:
            change = record(result, settings.root)
            if isinstance(change, Change):
                changes.append(change)
            elif change:
                faults.append(change)
    sheets = {str(sheet.path): sheet for sheet in plugin.sheets.values()}
    bound = {page: list(known) for page, known in plugin.bindings.items() if page in sheets}
    for page, sheet in sheets.items():
        if sheet.path in outcome.files:
            rewritten, bound[page] = rewrite(sheet, settings.root)
            changes += [rewritten] if rewritten else []
    path = settings.root / settings.snippets / bindings.FILE
    before, after = read(path) if path.exists() else bindings.dump({}), bindings.dump(bound)
    if before != after:
        changes.insert(0, Change(path, before, after))
    return changes, faults


def build(config_file: Path, paths: Iterable[Path], *, cached: bool) -> Outcome:
    """Build the site into a folder that is thrown away, and collect what is wrong with it.

    Args:
        config_file: the site's mkdocs.yml.
        paths: the pages and scripts that are asked for, each with what belongs to it; all when
            there are none. Their scripts run afresh, the others may come from the cache.
        cached: whether those asked for may come from the cache too.

    Raises:
        WrongUse: a file is not there, or is neither a page nor a script of this site.
    """
    from mkdocs.commands.build import build as mkdocs_build
    from mkdocs.exceptions import Abort, BuildError, ConfigurationError

    from selfattn.fresh.mkdocs_plugin import load

    if not config_file.exists():
        raise WrongUse(f"no {config_file} here; run it in the site's folder, or name it with -f")
    warnings = _Warnings()
    logger = logging.getLogger("mkdocs")
    logger.addHandler(warnings)
    try:
        config, plugin = load(config_file.absolute())
        root = plugin.settings.root
        asked = [_relative(path, root) for path in paths]
        shown = _shown(asked, plugin)
        asked += [path for pair in shown.items() for path in pair]
        outcome = Outcome(plugin)
        if not cached:
            plugin.afresh = {script.stem for script in shown} if asked else None
        with tempfile.TemporaryDirectory(prefix="fresh-site-") as folder:
            config.site_dir = folder
            config.plugins.on_startup(command="build", dirty=False)
            try:
                mkdocs_build(config)
            except (Abort, BuildError) as error:
                if not plugin.faults:
                    outcome.problems.append(f"the build failed: {error}")
            finally:
                config.plugins.on_shutdown()
    except (ConfigurationError, ValueError) as error:
        raise WrongUse(str(error)) from error
    finally:
        logger.removeHandler(warnings)
    everything = [s.path for s in plugin.sheets.values()]
    found = (root / plugin.settings.snippets).glob("*.md")
    everything += [path.relative_to(root) for path in found]
    everything += [r.snippet.path for r in plugin.results.values()]
    outcome.files = sorted({p for p in everything if not asked or _wanted(p, asked)})
    for path in asked:
        if not any(_wanted(one, [path]) for one in outcome.files):
            raise WrongUse(f"{path} is neither a page nor a script of this site, and holds none")
    outcome.faults = [f for f in plugin.faults if not asked or _wanted(f.path, asked)]
    outcome.problems += [] if asked else warnings.texts
    return outcome


class _Warnings(logging.Handler):
    """Collects what a strict build would count."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, entry: logging.LogRecord) -> None:
        if not entry.name.endswith(".fresh") and entry.levelno == logging.WARNING:
            self.texts.append(entry.getMessage())


def _relative(path: Path, root: Path) -> Path:
    if not path.exists():
        raise WrongUse(f"no file or folder {path}")
    try:
        return path.absolute().relative_to(root)
    except ValueError as error:
        raise WrongUse(f"{path} is not in the site's folder {root}") from error


def _wanted(path: Path, asked: list[Path]) -> bool:
    return any(path == one or one in path.parents for one in asked)


def _shown(asked: list[Path], plugin: "FreshPlugin") -> dict[Path, Path]:
    """Give the scripts that are asked for, by themselves or by their pages, with their pages.

    A page and its scripts are true or stale together.
    """
    from selfattn.fresh.check import owners

    settings = plugin.settings
    pairs = {
        Path(settings.snippets, f"{name}.md"): Path(page)
        for name, page in owners(settings.root / settings.docs, settings.root).items()
    }
    pages = {p for script, p in pairs.items() if _wanted(script, asked) or _wanted(p, asked)}
    return {script: page for script, page in pairs.items() if page in pages}


def _note(outcome: Outcome, path: Path) -> str:
    for sheet in outcome.plugin.sheets.values():
        loose = sum(binding is None for binding in sheet.bound)
        if sheet.path == path and loose:
            return f" ({loose} number(s) not bound yet: {UPDATE} {path})"
    for result in outcome.plugin.results.values():
        if result.snippet.path == path and result.missing:
            return f" (not run: needs {', '.join(result.missing)})"
    return ""


def _as_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "files": [{"path": str(p), "ok": not outcome.of(p)} for p in outcome.files],
        "faults": list(map(_fault, outcome.faults)),
        "problems": outcome.problems,
    }


def _fault(fault: Fault) -> dict[str, Any]:
    return {**asdict(fault), "path": str(fault.path)}
