"""The examiner process: requests on stdin, events on stdout, each one line of JSON.

A request: {"suite": ..., "places": [...], "submission": ..., "todos": [...], "seed": ...,
"device": ...}. Events: "ready"; "planned"; "check" for each check; "result" with the todos; or
"grader_error".
"""

from __future__ import annotations

import json
import os
import platform
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from infralens.examiner.processes import CandidateProcess, adopt_orphans, kill_descendants
from infralens.examiner.submission import UnreadableError, read_submission
from infralens.labs import Lab, Place, read_lab


class NoDeviceError(Exception):
    """The device that was asked for is not there."""


class Spares:
    """Candidates started ahead of need: importing torch takes two seconds, taking one none."""

    def __init__(self, more_will_follow: bool) -> None:
        self.more_will_follow = more_will_follow
        self.waiting: list[CandidateProcess] = [CandidateProcess()]

    def take(self) -> CandidateProcess:
        process = self.waiting.pop() if self.waiting else CandidateProcess()
        if not process.alive:
            process.kill()
            process = CandidateProcess()
        return process

    def refill(self) -> None:
        if self.more_will_follow and not self.waiting:
            self.waiting.append(CandidateProcess())

    def pids(self) -> frozenset[int]:
        return frozenset(process.process.pid for process in self.waiting)

    def close(self) -> None:
        while self.waiting:
            self.waiting.pop().kill()


def main() -> None:
    """Serve until stdin ends. Whatever happens, no process of a candidate is left."""
    requests, events = sys.stdin, _private_stdout()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    adopt_orphans()
    spares = Spares(more_will_follow="--serve" in sys.argv)
    try:
        _prepare()
        _emit(events)({"event": "ready"})
        for line in requests:
            _answer(json.loads(line), spares, _emit(events))
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        spares.close()
        kill_descendants()


def _private_stdout() -> IO[str]:
    """Our own copy of stdout; whatever else prints in this process goes to stderr."""
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return events


def _emit(events: IO[str]) -> Callable[[dict[str, Any]], None]:
    def emit(event: dict[str, Any]) -> None:
        events.write(json.dumps(event) + "\n")
        events.flush()

    return emit


def _prepare() -> None:
    import gc

    import torch

    gc.disable()  # while diffusers is imported: nothing of it is garbage
    import diffusers

    gc.enable()
    diffusers.utils.logging.set_verbosity_error()  # its advice is for users, not for graders
    torch.set_num_threads(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


def _answer(
    request: dict[str, Any], spares: Spares, emit: Callable[[dict[str, Any]], None]
) -> None:
    try:
        emit(_graded(request, spares, emit))
    except UnreadableError as error:
        emit({"event": "unreadable", "message": str(error)})
    except NoDeviceError as error:
        emit({"event": "no_device", "message": str(error)})
    except Exception as error:
        emit({"event": "grader_error", "message": f"{type(error).__name__}: {error}"})
    finally:
        kill_descendants(spare=spares.pids())
        spares.refill()


def _graded(
    request: dict[str, Any], spares: Spares, emit: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    import diffusers
    import torch

    from infralens.examiner.candidates import Link, linked
    from infralens.examiner.plugin import ExaminerPlugin, run_checks

    lab = _lab(request)
    submission = read_submission(Path(request["submission"]))
    device = _device(request["device"])
    link = Link(lab, submission, spares.take, limit_address_space=device == "cpu")
    with linked(link) as candidate:
        plugin = ExaminerPlugin(
            lab,
            link,
            candidate,
            seed=request["seed"],
            device=device,
            todos=frozenset(request["todos"]),
            emit=emit,
        )
        run_checks(plugin)
    return {
        "event": "result",
        "grader_error": plugin.fault,
        "todos": [asdict(result) for result in plugin.results()],
        "environment": {
            "device": device,
            "dtype": list(lab.dtypes),
            "python": platform.python_version(),
            "torch": torch.__version__,
            "diffusers": diffusers.__version__,
            "isolation": "process",
        },
    }


def _device(wanted: str) -> str:
    """The device to grade on: `auto` is cuda where there is one."""
    import torch

    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if wanted == "cuda" and not torch.cuda.is_available():
        raise NoDeviceError("There is no CUDA device here; grade with --device cpu.")
    return wanted


def _lab(request: dict[str, Any]) -> Lab:
    suite = Path(request["suite"])
    solutions = request["place"][2]
    place = Place(
        Path(request["place"][0]),
        Path(request["place"][1]),
        Path(solutions) if solutions else None,
    )
    return read_lab(suite / "lab.yaml", place)
