"""Run many scripts side by side, and take from the cache what is still true."""

from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Literal

from tqdm import tqdm

from selfattn.fresh import process
from selfattn.fresh.cache import Cache
from selfattn.fresh.fault import Fault
from selfattn.fresh.run import Run, run
from selfattn.fresh.settings import Settings
from selfattn.fresh.snippet import Snippet

Origin = Literal["run", "cache", "recorded"]


@dataclass(frozen=True)
class Result:
    """What is known of one script.

    Attributes:
        snippet: the script.
        run: what it gave; empty when it could not run.
        origin: whether it ran now, was remembered, or needs something that is missing, so that
            only its recorded output is known.
        missing: the names of what it needs and is not there.
    """

    snippet: Snippet
    run: Run
    origin: Origin
    missing: tuple[str, ...] = ()


def run_all(
    snippets: Iterable[Snippet], settings: Settings, cache: Cache | None = None
) -> dict[str, Result]:
    """Get the results of scripts by their names, from the cache where there is one.

    Args:
        snippets: the scripts.
        settings: the site's.
        cache: where to look first, and where to keep what ran; None runs everything afresh.
    """
    results: dict[str, Result] = {}
    waiting = []
    for snippet in snippets:
        result = _without_running(snippet, settings, cache)
        if result:
            results[snippet.name] = result
        else:
            waiting.append(snippet)
    for snippet, done in _run_now(waiting, settings):
        results[snippet.name] = Result(snippet, done, "run")
        if cache:
            cache.put(snippet, done)
    if cache and waiting:
        cache.prune()
    return results


def _without_running(snippet: Snippet, settings: Settings, cache: Cache | None) -> Result | None:
    try:
        missing = settings.missing(snippet.needs)
    except Exception as error:  # a check is the site's own code
        text = f"{type(error).__name__}: {error}"
        fault = Fault(snippet.path, 1, f"cannot tell whether what it needs is there: {text}")
        return Result(snippet, Run(fault=fault), "recorded")
    if missing:
        return Result(snippet, Run(), "recorded", tuple(missing))
    remembered = cache.get(snippet) if cache else None
    return Result(snippet, remembered, "cache") if remembered else None


def _run_now(snippets: list[Snippet], settings: Settings) -> Iterable[tuple[Snippet, Run]]:
    if not snippets:
        return
    with (
        settings.start_executor() as executor,
        tqdm(total=len(snippets), unit="script", leave=False, disable=None, delay=2) as bar,
    ):
        root, preload, notices = settings.root, settings.preload, settings.notices
        # Those that may take longest start first, or all would wait for the last one.
        longest_first = sorted(snippets, key=lambda snippet: -snippet.timeout)
        futures: dict[Future[Run], Snippet] = {
            executor.submit(run, snippet, root, preload, notices): snippet
            for snippet in longest_first
        }
        pending = set(futures)
        try:
            while pending:
                done, pending = wait(pending, timeout=0.5, return_when=FIRST_COMPLETED)
                running = [futures[future].name for future in pending if future.running()]
                bar.set_postfix_str(", ".join(sorted(running)[:4]))
                bar.update(len(done))
                for future in done:
                    yield futures[future], _result(future, futures[future])
        except BaseException:  # Ctrl-C must not wait for what still runs
            for future in pending:
                future.cancel()
            executor.shutdown(wait=False)
            process.close()
            raise


def _result(future: Future[Run], snippet: Snippet) -> Run:
    try:
        return future.result()
    except Exception as error:  # the executor lost it, as when a worker on another machine ends
        text = f"{type(error).__name__}: {error}"
        return Run(fault=Fault(snippet.path, snippet.first, f"did not come back: {text}"))
