"""Let Lighthouse judge every page of the built site, and print its four figures for each.

    make lighthouse

needs Node with npx, and Chromium. A page that misses a goal is judged twice more, and the middle
figure counts: a machine is now and then busy with something else. The exit status is 1 when a goal
is missed: 100 for accessibility, best practices and search engines, and 95 for performance.
"""

import functools
import gzip
import http.server
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

VERSION = "12.8.2"
GOALS = {"performance": 95, "accessibility": 100, "best-practices": 100, "seo": 100}
SITE = Path(__file__).parent.parent / "site"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves text compressed, as any server that a site is put on does."""

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if path.suffix not in {".html", ".css", ".js", ".svg", ".json"} or not path.is_file():
            return super().do_GET()
        body = gzip.compress(path.read_bytes())
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        return None

    def log_message(self, *args: object) -> None:
        """Print nothing between the figures."""


def judge(address: str, chromium: str) -> dict[str, int]:
    """Judge a page once, or three times if it misses a goal.

    Returns:
        Its score in each category, from 0 to 100, the middle one of three.
    """
    scores = [judge_once(address, chromium)]
    if misses(scores[0]):
        scores += [judge_once(address, chromium) for _ in range(2)]
    return {name: statistics.median_low(one[name] for one in scores) for name in GOALS}


def misses(scores: dict[str, int]) -> bool:
    """Tell whether a score is below its goal."""
    return any(scores[name] < goal for name, goal in GOALS.items())


def judge_once(address: str, chromium: str) -> dict[str, int]:
    """Run Lighthouse on one page.

    Returns:
        Its score in each category, from 0 to 100.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        subprocess.run(
            [
                *("npx", "--yes", f"lighthouse@{VERSION}", address, "--quiet"),
                *("--output=json", f"--output-path={report}"),
                f"--only-categories={','.join(GOALS)}",
                "--chrome-flags=--headless=new --no-sandbox",
            ],
            env={**os.environ, "CHROME_PATH": chromium},
            check=True,
        )
        categories = json.loads(report.read_text("utf-8"))["categories"]
    return {name: round(100 * categories[name]["score"]) for name in GOALS}


def main() -> int:
    """Judge all pages; give the exit status."""
    chromium = os.environ.get("SELFATTN_CHROMIUM") or next(
        filter(None, map(shutil.which, CHROMIUM)), ""
    )
    if not chromium or not shutil.which("npx"):
        print(
            "lighthouse needs Chromium (or its path in SELFATTN_CHROMIUM) and npx", file=sys.stderr
        )
        return 2
    missed = False
    handler = functools.partial(Handler, directory=SITE)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(f"{'page':26}", *(f"{name:>15}" for name in GOALS))
        for page in sorted(SITE.glob("*.html")):
            if page.name == "404.html":
                continue
            scores = judge(f"http://127.0.0.1:{server.server_port}/{page.name}", chromium)
            short = misses(scores)
            missed = missed or short
            print(
                f"{page.stem:26}",
                *(f"{s:15}" for s in scores.values()),
                "missed" * short,
                flush=True,
            )
        server.shutdown()
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
