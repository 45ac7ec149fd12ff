"""A class graded by workers of Dask's: nothing lost or doubled, whoever is killed."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from infralens.course.assigned import Assigned
from infralens.course.batch import cluster, run, worker
from infralens.course.batch.finding import find
from infralens.course.batch.judging import Job, Verdict
from infralens.course.batch.sources import source_at
from infralens.course.kit import kit_of
from infralens.course.results import read_results
from infralens.examiner.errors import UnavailableError
from infralens.grading import Examiners
from infralens.labs import Lab, place_at, read_lab

ATTACKED = Path(__file__).parents[1] / "attacks" / "lab"
SCHEDULER = "from distributed.cli.dask_scheduler import main; main()"
WORKER = "from distributed.cli.dask_worker import main; main()"
ANOTHER_KIT = f"import infralens; infralens.__version__ = '0.0.9'; {WORKER}"
ALONE = ("--no-dashboard", "--host", "127.0.0.1")
PLAIN_WORKER = (*ALONE, "--no-nanny", "--nthreads", "1")
# It waits to be killed, once.
SLOW = """
import os, pathlib, time
marker = pathlib.Path({marker!r})
if not marker.exists():
    marker.write_text(str(os.getpid()))
    time.sleep(9)
"""


@pytest.fixture(scope="module")
def lent() -> Lab:
    """The small lab that attacks are tried on."""
    place = place_at(ATTACKED)
    return read_lab(place.suites / "attacks" / "lab_01_lent_things" / "lab.yaml", place)


class Dask:
    """A scheduler and workers, each a process of its own, that can be killed and come again."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.processes = folder, list[subprocess.Popen[bytes]]()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"

    def start(self, code: str, *options: str) -> subprocess.Popen[bytes]:
        started = subprocess.Popen(
            [sys.executable, "-c", code, *options],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.processes.append(started)
        return started

    def scheduler(self) -> subprocess.Popen[bytes]:
        return self.start(SCHEDULER, *ALONE, "--port", str(self.port))

    def worker(self, code: str = WORKER) -> subprocess.Popen[bytes]:
        return self.start(code, self.address, *PLAIN_WORKER)

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def dask(tmp_path: Path) -> Iterator[Dask]:
    made = Dask(tmp_path)
    yield made
    made.close()


def family(process: subprocess.Popen[bytes]) -> set[int]:
    with contextlib.suppress(psutil.Error):
        return {child.pid for child in psutil.Process(process.pid).children(recursive=True)}
    return set()


def test_whoever_is_killed_nothing_is_lost_or_doubled(
    tmp_path: Path,
    lent: Lab,
    dask: Dask,
    monkeypatch: pytest.MonkeyPatch,
    light_diffusers: Path,
) -> None:
    """A worker in mid-grade, then the scheduler; one worker has another kit and gets nothing."""
    assert lent.solution is not None
    solution, marker = lent.solution.read_text(encoding="utf-8"), tmp_path / "marker"
    texts = {name: f"# {name}\n{solution}" for name in "bcdef"}
    texts["a"] = SLOW.format(marker=str(marker)) + solution
    (tmp_path / "class").mkdir()
    for name, text in texts.items():
        (tmp_path / "class" / f"{name}_lent.py").write_text(text, encoding="utf-8")
    dask.scheduler()
    first, second, _ = dask.worker(), dask.worker(), dask.worker(ANOTHER_KIT)
    told, written, ended = list[str](), list[str](), list[bool]()
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 4.0)

    def kill_who_grades_a() -> None:
        while not marker.exists() or not marker.read_text():
            time.sleep(0.05)
        grading = int(marker.read_text())
        victim = None
        while victim is None:  # a look at many processes that come and go may miss one
            time.sleep(0.05)
            victim = next((w for w in (first, second) if grading in family(w)), None)
        victim.send_signal(signal.SIGKILL)

    killer = threading.Thread(target=kill_who_grades_a, daemon=True)
    killer.start()

    def end_the_scheduler() -> None:  # once the loss of the worker was seen
        lost = any("No verdict on a_lent.py" in sentence for sentence in told)
        if lost and len(written) >= 3 and not ended:
            ended.append(True)
            for process in dask.processes:
                process.kill()

    def on_result(result: Any) -> None:
        written.append(result.learner)
        end_the_scheduler()

    def tell(sentence: str) -> None:
        told.append(sentence)
        if sentence.startswith("The scheduler"):
            dask.scheduler(), dask.worker()
        end_the_scheduler()

    def judged(jobs: Any, load: Any) -> Any:
        return cluster.judged_there(jobs, load, address=dask.address, extra=[ATTACKED], tell=tell)

    with source_at(tmp_path / "class") as source:
        found = find(source, [Assigned("attacks-lab-01", lent)], None)
        seeds = run.fix_seeds(tmp_path / "out", found, [lent], 7)
        plan = run.plan(found, seeds, tmp_path / "out", "process", "cpu")
        run.carry_out(plan, tmp_path / "out", judged, on_result)
    killer.join(1)
    results = list(read_results(tmp_path / "out" / run.RESULTS))
    assert sorted(written) == [result.learner for result in results] == list("abcdef")
    assert [result.report.score for result in results if result.report] == [7] * 6
    said = "\n".join(told)
    assert "No verdict on a_lent.py" in said
    assert f"its kit for attacks/lab-01 is 0.0.9+{kit_of(lent).partition('+')[2]}" in said
    assert f"The scheduler at {dask.address} is gone" in said


def test_the_examiners_of_a_worker_know_of_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one is killed, what descends from the worker is killed, but for the others."""
    given: list[Examiners] = []

    @contextlib.contextmanager
    def judge(among: Examiners) -> Iterator[Any]:
        given.append(among)
        yield SimpleNamespace(close=lambda: None)

    monkeypatch.setattr(worker, "judge", judge)
    judges = worker.Judges({})
    with judges.one(), judges.one():
        assert len(set(given)) == 1 < len(given)


class Colleague:
    """What `begin` uses of a worker."""

    def __init__(self) -> None:
        self.plugins: dict[str, object] = {}

    async def plugin_add(self, plugin: object, name: str) -> None:
        self.plugins[name] = plugin


def asked(isolation: str, lab: Lab, kit: str | None = None, extra: Path = ATTACKED) -> Any:
    colleague: Any = Colleague()
    kits = {lab.id: kit or kit_of(lab)}
    reason = asyncio.run(worker.begin(kits, [str(extra)], isolation, colleague))
    assert bool(colleague.plugins) == (reason is None), "it was made ready, and may not grade"
    return reason


def test_a_worker_grades_without_the_sandbox_only_where_it_is_told_to(
    lent: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "unavailable", lambda: "bubblewrap is not installed")
    assert "no sandbox (bubblewrap is not installed)" in asked("sandbox", lent)
    assert asked("process", lent) is None


def test_a_worker_without_the_lab_or_with_another_kit_grades_nothing(
    lent: Lab, tmp_path: Path
) -> None:
    assert asked("process", lent, kit="0.0.1+aa") == (
        f"its kit for attacks/lab-01 is {kit_of(lent)}, and ours is 0.0.1+aa"
    )
    assert "has no folder suites/" in asked("process", lent, extra=tmp_path)


class Ended:
    """A future whose worker broke."""

    status = "error"

    def exception(self, timeout: float) -> BaseException:
        return RuntimeError("worker died")

    def cancel(self) -> None: ...


def test_a_submission_that_breaks_every_worker_is_void_and_not_tried_for_ever(lent: Lab) -> None:
    job = Job("key", lent, "ada/lent.py", "sha", 7, "sandbox", "cpu")
    work = cluster._Work(deque([job]), lambda job: b"", None, lambda sentence: None)
    crew = cluster._Crew({"tcp://a": 1})
    came: list[tuple[Job, Verdict]] = []
    tries = 0
    while work.left:
        tries += 1
        future: Any = Ended()
        work.flying[future] = (work.waiting.popleft(), "tcp://a")
        came += cluster._arrived(work, crew, future)
    assert tries == cluster.MOST_LOSSES + 1
    ((_, verdict),) = came
    assert verdict.report is not None
    assert verdict.report.score == 0
    assert "3 workers were lost over it" in (verdict.report.grader_error or "")


def test_no_scheduler_is_one_sentence(
    lent: Lab, dask: Dask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 0.2)
    job = Job("key", lent, "ada/lent.py", "sha", 7, "sandbox", "cpu")
    with pytest.raises(UnavailableError, match=f"No scheduler answers at {dask.address}"):
        list(cluster.judged_there([job], lambda job: b"", address=dask.address))


@pytest.mark.parametrize("address", ["foo", "http://here:1", "tcp://here", "tcp://here:port"])
def test_what_is_no_address_is_one_sentence(
    address: str, lent: Lab, capfd: pytest.CaptureFixture[str]
) -> None:
    job = Job("key", lent, "ada/lent.py", "sha", 7, "sandbox", "cpu")
    with pytest.raises(UnavailableError, match=f"no scheduler at {address}: .*tcp://192"):
        list(cluster.judged_there([job], lambda job: b"", address=address))
    assert "Traceback" not in capfd.readouterr().err
