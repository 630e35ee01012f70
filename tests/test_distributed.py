"""Scripts run where the caller's executor runs them: here in the workers of a dask cluster."""

from pathlib import Path

import psutil
from distributed import Client, LocalCluster
from small_site import build, script, spoil

EXECUTOR = """import os

from distributed import Client


def executor():
    # Not pure: the same script may give something else in the next build.
    return Client(os.environ["SCHEDULER"]).get_executor(pure=False)
"""

# The script's process is forked by a process that its worker started.
CODE = """import os
with open(f"parents/{os.getpid()}", "w") as file:
    file.write(str(os.getppid()))
print(6 * 7)"""


def test_scripts_run_in_the_workers_of_a_cluster(site: Path) -> None:
    (site / "parents").mkdir()
    (site / "cluster.py").write_text(EXECUTOR)
    spoil(site / "mkdocs.yml", "preload: []", "executor: cluster:executor")
    for name in ("small", "other"):
        (site / f"snippets/{name}.md").write_text(script(CODE, "42\n"))
    # Without bokeh there is no dashboard, but a port that would be asked for: any free one.
    port = "127.0.0.1:0"
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address=port,
            local_directory=str(site / "scratch"),
        ) as cluster,
        Client(cluster) as client,
    ):
        address = cluster.scheduler_address
        done = build(site, "--strict", env={"SCHEDULER": address})
        assert done.returncode == 0, done.stderr
        for name in ("index.html", "more/index.html"):
            assert "42" in (site / "site" / name).read_text()
        workers = set(client.run(lambda: __import__("os").getpid()).values())
        parents = {int(file.read_text()) for file in (site / "parents").iterdir()}
        assert {psutil.Process(pid).ppid() for pid in parents} <= workers
        assert len(list((site / "parents").iterdir())) == 2

        spoil(site / "snippets/small.md", "print(6 * 7)", "print(6 * 8)")
        spoil(site / "snippets/other.md", "print(6 * 7)", "os._exit(0)")
        done = build(site, "-q", "--strict", env={"SCHEDULER": address})
        assert "2 faults" in done.stderr
        assert "snippets/small.md:15: printed something else than it records" in done.stderr
        assert "snippets/other.md:8: section 'count': the process ended before" in done.stderr
    for name in ("index.html", "more/index.html"):
        assert not (site / "site" / name).exists()
