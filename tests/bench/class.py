"""What a class costs. Run: python tests/bench/class.py [--count 100] [--jobs 2] [--workers N]

A mix of solutions, misconceptions and stubs of labs 01 to 03, no two files the same, through
`infralens batch`, in the sandbox where there is one. It tells the seconds a submission, by the
clock and of the processors; those of each lab's first half and of its second, which are alike where
time is linear; and the largest memory of all processes together in the first half and the second.
`--workers` takes a scheduler of Dask's and so many workers of this machine in place of jobs.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from infralens.course.results import read_results
from infralens.examiner.isolation.bubblewrap import unavailable
from infralens.labs import find_lab, find_labs
from infralens.wrong import wrong_answers

LABS = ("lab-01", "lab-02", "lab-03")
WRONG = 3  # misconceptions to each solution and each stub
LOOK_SECONDS = 0.2


def texts() -> Iterator[tuple[str, str]]:
    """(lab, text), for ever: a solution, some misconceptions and a stub of each lab in turn."""
    kinds = []
    for name in LABS:
        lab = find_lab(name, find_labs())
        assert lab.solution is not None
        solution = lab.solution.read_text(encoding="utf-8")
        named = [wrong for wrong in wrong_answers(lab) if wrong.says]
        wrong = [each.edited(solution) for each in named]
        stub = lab.stub.read_text(encoding="utf-8")
        lanes = (itertools.repeat(solution), *[itertools.cycle(wrong)] * WRONG)
        kinds.append((name, itertools.cycle((*lanes, itertools.repeat(stub)))))
    for name, lanes_of in itertools.cycle(kinds):
        yield name, next(next(lanes_of))


def hand_in(folder: Path, count: int) -> None:
    """A class of so many submissions in the layout of nbgrader; no two files are the same."""
    for number, (lab, text) in zip(range(count), texts(), strict=False):
        path = folder / f"learner-{number:04d}" / lab / find_lab(lab, find_labs()).file
        path.parent.mkdir(parents=True)
        path.write_text(f"{text}\n# {number}\n", encoding="utf-8")


@dataclass
class Watched:
    """What a process and all that descends from it take, looked at again and again.

    What they share is counted for each of them. Of one that has ended the last look counts, so the
    seconds are a little low.
    """

    pid: int
    peaks: list[int] = field(default_factory=list)
    seconds: dict[tuple[int, float], float] = field(default_factory=dict)

    def look(self) -> None:
        """Look at all of them once."""
        total = 0
        with contextlib.suppress(psutil.Error):
            for process in (top := psutil.Process(self.pid), *top.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    total += process.memory_info().rss
                    times = process.cpu_times()
                    named = process.pid, process.create_time()
                    self.seconds[named] = times.user + times.system
        self.peaks.append(total)

    def of(self, pid: int) -> float:
        """The seconds of this process alone."""
        return sum(seconds for (known, _), seconds in self.seconds.items() if known == pid)


@contextlib.contextmanager
def workers(count: int) -> Iterator[str]:
    """A scheduler of Dask's and so many workers, a thread each. Its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    base = [sys.executable, "-m", "distributed.cli."]
    alone = ["--no-dashboard", "--host", "127.0.0.1"]
    port = ["--port", address.rpartition(":")[2]]
    started = [subprocess.Popen([*base[:2], f"{base[2]}dask_scheduler", *alone, *port], **quiet)]
    mine = [*alone, "--no-nanny", "--nthreads", "1"]
    for _ in range(count):
        command = [*base[:2], f"{base[2]}dask_worker", f"tcp://{address}", *mine]
        started.append(subprocess.Popen(command, **quiet))
    try:
        yield f"tcp://{address}"
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--workers", type=int, nargs="+", default=[0])
    asked = parser.parse_args()
    for crew in asked.workers:
        measure(asked.count, asked.jobs, crew)


def measure(count: int, jobs: int, crew: int) -> None:
    """Grade a class of so many once, and print what it cost."""
    isolation = "sandbox" if unavailable() is None else "process"
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        hand_in(folder / "class", count)
        how = ["--jobs", str(jobs)]
        if crew:
            how = ["--cluster", stack.enter_context(workers(crew))]
        command = [sys.executable, "-m", "infralens", "batch", str(folder / "class"), *how]
        options = ["--output", str(folder / "out"), "--isolation", isolation, "--seed", "1"]
        begun, clock = time.time(), time.perf_counter()
        process = subprocess.Popen([*command, *options, "--device", "cpu"])
        watched = Watched(os.getpid() if crew else process.pid)
        while process.poll() is None:
            watched.look()
            time.sleep(LOOK_SECONDS)
        seconds = time.perf_counter() - clock
        results = folder / "out" / "results"
        ends = [
            sorted(path.stat().st_mtime - begun for path in lab.glob("*.json"))
            for lab in sorted(results.iterdir())  # the order in which they are graded
        ]
        points = [result.report.score for result in read_results(results) if result.report]
    cpu = sum(watched.seconds.values()) - watched.of(os.getpid())
    print(f"{count} submissions, {' '.join(how)}, isolation {isolation}")
    print(f"exit code {process.returncode}, {len(points)} results, {sum(points)} points")
    print(f"seconds a submission   {seconds / count:6.2f} by the clock, {seconds:.0f} in all")
    print(f"                       {cpu / count:6.2f} of the processors")
    handing_out = watched.of(process.pid) / count
    print(f"                       {handing_out:6.3f} of these by who hands the work out")
    for name, lab in zip(LABS, ends, strict=True):
        middle = len(lab) // 2
        first, second = (
            (part[-1] - part[0]) / (len(part) - 1) for part in (lab[: middle + 1], lab[middle:])
        )
        print(f"  {name}               {first:6.2f}, then {second:.2f}")
    half = len(watched.peaks) // 2
    first, second = (max(part) / 2**20 for part in (watched.peaks[:half], watched.peaks[half:]))
    print(f"largest memory         {first:,.0f} MiB, then {second:,.0f} MiB")


if __name__ == "__main__":
    main()
