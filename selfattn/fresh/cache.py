"""Remember what scripts gave, and forget it when anything behind it changes.

A result is found again only if all of this is as it was:

- the script's text and its time limit,
- every file of the project and every data file that the run opened, by checksum, and the absence
  of those that it looked for in vain,
- Python, every installed distribution (its version and when it was installed), what the
  environment's path files add,
- the operating system, the processor's kind and its instruction sets,
- the site's fingerprint, and the worker that ran it.

The plugin adds to the fingerprint which modules are preloaded and which notices may be on stderr.

What this does not cover: environment variables, the clock, the network, files read by child
processes or by compiled code, a new module that would be found before one that was imported, the
list of a folder's files, and a file whose absence was only asked for and never met by opening it.
"""

import hashlib
import json
import os
import platform
import sys
import tempfile
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import Any

from selfattn.fresh.process import WORKER
from selfattn.fresh.run import Circumstances, Figure, Output, Run
from selfattn.fresh.snippet import Snippet

MAX_FILES = 2000
VARIANTS = 4
"""Results kept for one text of one script: a change of branch and back finds both."""


class Cache:
    """A folder of results, for the time of one build.

    Safe under several builds at once: files appear whole, under names made from their contents.
    A file that cannot be read or is damaged is as good as none. Failing to write costs the next
    build time and nothing else.
    """

    def __init__(
        self, folder: Path, root: Path, fingerprint: str, skip: Collection[str] = ()
    ) -> None:
        """Open a cache.

        Args:
            folder: where the results are.
            root: the folder of the site.
            fingerprint: what the site says of itself.
            skip: names of scripts whose results are not looked up, only kept.
        """
        self._skip = skip
        self._folder = folder
        self._root = root
        self._fingerprint = fingerprint
        self._environment = environment()
        # Of this build alone: files change between two.
        self._checksums: dict[str, str | None] = {}

    def get(self, snippet: Snippet) -> Run | None:
        """Find the result of a script, if all behind it is as it was."""
        if snippet.name in self._skip:
            return None
        for path in sorted(self._place(snippet).glob("*.json")):
            known = _read(path)
            if known and all(self._checksum(f) == c for f, c in known.files.items()):
                _touch(path)
                return known
        return None

    def put(self, snippet: Snippet, result: Run) -> None:
        """Remember a result; one with a fault is not worth it."""
        if result.fault:
            return
        place = self._place(snippet)
        entry = _entry(result)
        name = hashlib.sha256(json.dumps(entry["files"], sort_keys=True).encode()).hexdigest()
        try:
            place.mkdir(parents=True, exist_ok=True)
            ignore = self._folder / ".gitignore"
            if not ignore.exists() or not ignore.stat().st_size:  # the disk may have been full
                ignore.write_text("*\n", encoding="utf-8")
            _write(place / f"{name[:32]}.json", entry)
            _prune(list(place.glob("*.json")), VARIANTS)
        except OSError:
            return  # a full disk or a read-only folder: nothing is remembered

    def prune(self) -> None:
        """Drop what was used longest ago, beyond the bound."""
        _prune(list(self._folder.glob("*/*.json")), MAX_FILES)
        _prune(list(self._folder.glob("*/*.part")), VARIANTS)  # left by builds that were killed

    def _place(self, snippet: Snippet) -> Path:
        key = [snippet.name, snippet.code, snippet.first, snippet.timeout, self._fingerprint]
        digest = hashlib.sha256(json.dumps([*key, self._environment]).encode()).hexdigest()
        return self._folder / digest[:32]

    def _checksum(self, file: str) -> str | None:
        if file not in self._checksums:
            try:
                data = (self._root / file).read_bytes()
                self._checksums[file] = hashlib.sha256(data).hexdigest()
            except OSError:
                self._checksums[file] = None
        return self._checksums[file]


def environment() -> str:
    """Describe what all scripts share: interpreter, installed packages, machine, worker."""
    parts = [sys.version, sys.prefix, os.environ.get("PYTHONPATH", ""), platform.platform()]
    for folder in filter(os.path.isdir, sys.path):
        for name in sorted(os.listdir(folder)):
            if name.endswith((".dist-info", ".egg-info")):
                parts += [name, _installed(Path(folder, name, "RECORD"))]
            elif name.endswith(".pth"):
                parts.append(Path(folder, name).read_text(encoding="utf-8", errors="replace"))
    parts += [_processor(), os.environ.get("ATEN_CPU_CAPABILITY", "")]
    parts.append(WORKER.read_text(encoding="utf-8"))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _installed(record: Path) -> str:
    """Tell one installation of a version from another."""
    try:
        known = record.stat()
    except OSError:
        return ""
    return f"{known.st_size} {known.st_mtime_ns}"


def _processor() -> str:
    """Kind and instruction sets, on which printed digits depend; asking torch would load it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return platform.processor()
    wanted = ("model name", "flags", "Features")
    return "\n".join(sorted({line for line in lines if line.startswith(wanted)}))


def _entry(result: Run) -> dict[str, Any]:
    body = {
        "outputs": {name: asdict(output) for name, output in result.outputs.items()},
        "files": result.files,
        "circumstances": asdict(result.circumstances) if result.circumstances else None,
    }
    return {**body, "checksum": _digest(body)}


def _run(entry: dict[str, Any]) -> Run:
    outputs = {
        name: Output(output["text"], tuple(Figure(**figure) for figure in output["figures"]))
        for name, output in entry["outputs"].items()
    }
    known = entry["circumstances"]
    return Run(outputs, None, entry["files"], Circumstances(**known) if known else None)


def _digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _read(path: Path) -> Run | None:
    try:
        entry: dict[str, Any] = json.loads(path.read_bytes())
        if entry.pop("checksum") == _digest(entry):
            return _run(entry)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    _remove(path)
    return None


def _write(path: Path, entry: dict[str, Any]) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(entry, file)
        os.replace(temporary, path)
    except BaseException:
        _remove(Path(temporary))
        raise


def _prune(files: list[Path], keep: int) -> None:
    if len(files) > keep:
        for path in sorted(files, key=_age)[:-keep]:
            _remove(path)


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _touch(path: Path) -> None:
    try:
        os.utime(path)
    except OSError:
        return


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except OSError:
        return
