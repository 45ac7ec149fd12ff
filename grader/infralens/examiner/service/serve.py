"""The examiner process: requests on stdin, events on stdout, each one line of JSON.

Our first line is {"event": "private"}: from now on nobody can read our memory. The command's first
is {"token": ...}; every later line, in both directions, carries that token, and an event the id of
its request. A request: {"id": ..., "suite": ..., "place": [...], "submission": ..., "todos": [...],
"seed": ..., "device": ..., "isolation": ..., "masked": [...], "loaded": [...],
"wishes": {"naming": ..., "stop": ..., "first": ...}}. Events: "planned"; "check" for each check;
"starts", the seconds that each candidate took to start; and at the end one of "result",
"unreadable", "unavailable" and "grader_error".
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from infralens.examiner.candidate.submission import UnreadableError, read_submission
from infralens.examiner.isolation.bubblewrap import unavailable
from infralens.examiner.isolation.launch import (
    DirectLauncher,
    Launcher,
    SandboxLauncher,
    TemplateLauncher,
    template_lacks,
)
from infralens.examiner.isolation.process import (
    CandidateProcess,
    adopt_orphans,
    candidate_environment,
    end_with_the_parent,
    kill_descendants,
    remove,
    stay_private,
)
from infralens.examiner.isolation.watch import Watcher
from infralens.labs import Lab, Place, read_lab

SANDBOX_PROCESSES = 64  # threads count too; a process level limit would count the user's others


class UnavailableError(Exception):
    """The device or the isolation that was asked for is not there; the text says so."""


@dataclass(frozen=True)
class Setting:
    """What a candidate is started with; a spare serves only grades of its own setting."""

    isolation: str
    masked: tuple[str, ...]
    loaded: tuple[str, ...]
    cuda: bool


def setting_of(request: dict[str, Any]) -> Setting:
    """The setting that a request needs. `auto` is the sandbox where there is one."""
    wanted, reason = request["isolation"], unavailable()
    loaded = tuple(request["loaded"])
    if wanted == "sandbox" and reason is not None:
        raise UnavailableError(f"There is no sandbox here: {reason}. Use --isolation process.")
    if wanted == "process" or reason is not None:
        return Setting("process", (), loaded, cuda=False)
    cuda = request["device"] != "cpu" and Path("/dev/nvidiactl").exists()
    return Setting("sandbox", tuple(request["masked"]), loaded, cuda)


class Spares:
    """Candidates started ahead of need: importing torch takes two seconds, taking one none."""

    def __init__(self, *, more_will_follow: bool) -> None:
        self.more_will_follow = more_will_follow
        self.launchers: dict[Setting, Launcher] = {}
        self.started: list[CandidateProcess] = []
        self.watcher = Watcher(self.launcher_pids)
        self.waiting: dict[Setting, CandidateProcess] = {}

    def begin(self, setting: Setting) -> None:
        """Have what takes long begin now: the caller has something to import meanwhile."""
        if setting not in self.launchers:
            self.launchers[setting] = self._launcher(setting)
        if not isinstance(self.launchers[setting], TemplateLauncher):
            self.prepare(setting)  # one from a template would be waited for

    def prepare(self, setting: Setting) -> None:
        """Start one for this setting, if none waits; those of other settings are given up."""
        for other in [known for known in self.waiting if known != setting]:
            self.waiting.pop(other).kill()
        if setting not in self.waiting:
            self.waiting[setting] = self._started(setting)

    def take(self, setting: Setting) -> CandidateProcess:
        process = self.waiting.pop(setting, None) or self._started(setting)
        if not process.alive:
            process.kill()
            process = self._started(setting)
        return process

    def _started(self, setting: Setting) -> CandidateProcess:
        with self.watcher.starting():  # a watch that looks meanwhile sees no stray
            if setting not in self.launchers:
                self.launchers[setting] = self._launcher(setting)
            process = CandidateProcess(self.launchers[setting], self.watcher)
            self.started.append(process)
        return process

    def sweep(self) -> None:
        """Leave nothing of a submission: no process, and no folder that one made again."""
        waiting = frozenset(process.pid for process in self.waiting.values())
        kill_descendants(spare=waiting, alone=self.launcher_pids())
        for process in self.started:
            if process.ended and (process.folder.exists() or process.folder.is_symlink()):
                remove(process.folder)
        self.started = [process for process in self.started if not process.ended]

    def _launcher(self, setting: Setting) -> Launcher:
        if setting.isolation == "sandbox":
            return SandboxLauncher(setting.masked, cuda=setting.cuda, loaded=setting.loaded)
        if self.more_will_follow and template_lacks() is None:
            environment = candidate_environment(Path(tempfile.gettempdir()))
            return TemplateLauncher(environment, setting.loaded)
        return DirectLauncher(setting.loaded)

    def launcher_pids(self) -> frozenset[int]:
        """Processes of the launchers themselves, which outlive a grade."""
        return frozenset(pid for each in self.launchers.values() for pid in each.pids())

    def remove_folders(self) -> None:
        """Remove what the candidates wrote, for a signal handler: it takes no lock of theirs."""
        for process in self.started:
            remove(process.folder)

    def close(self) -> None:
        self.waiting.clear()
        for process in self.started:
            process.kill()
        for launcher in self.launchers.values():
            launcher.close()


def main() -> None:
    """Serve until stdin ends. Whatever happens, no process of a candidate is left."""
    requests, events = sys.stdin, _private_stdout()
    stay_private()  # before there is a token to be read
    events.write('\n{"event": "private"}\n')
    events.flush()
    token = _token(requests)
    spares = Spares(more_will_follow="--serve" in sys.argv)

    def end(*_: object) -> None:
        # Not an exception: pytest and the libraries under it would take it for their own. Nor
        # `close`: it waits where what was interrupted here may wait already, holding the lock.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        kill_descendants()
        spares.remove_folders()
        _remove_our_folder()
        os._exit(143)

    signal.signal(signal.SIGTERM, end)
    adopt_orphans()
    end_with_the_parent()
    ready = False
    try:
        for request in _signed(requests, token):
            emit = _emit(events, token, request["id"])
            try:
                setting = setting_of(request)
                spares.begin(setting)
                if not ready:
                    _prepare()
                    ready = True
                spares.prepare(setting)
            except UnavailableError as error:
                emit({"event": "unavailable", "message": str(error)})
                continue
            except OSError as error:
                emit({"event": "grader_error", "message": f"no candidate starts: {error}"})
                continue
            _answer(request, setting, spares, emit)
    finally:
        spares.close()
        kill_descendants()
        _remove_our_folder()


def _remove_our_folder() -> None:
    """What the command made for us: it may have been killed, and then nobody else does."""
    folder = Path(tempfile.gettempdir())
    if folder.name.startswith("infralens-"):
        remove(folder)


def _private_stdout() -> IO[str]:
    """Our own copy of stdout; whatever else prints in this process goes to stderr."""
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return events


def _token(requests: IO[str]) -> str:
    """What the first line says: the sign of every line that is really ours, in both directions."""
    for line in requests:
        if line.strip():
            return str(json.loads(line)["token"])
    return ""


def _signed(requests: IO[str], token: str) -> Iterator[dict[str, Any]]:
    """The requests. Lines that somebody else put into the pipe are passed over."""
    for line in requests:
        try:
            request = json.loads(line)
        except ValueError:
            continue
        if isinstance(request, dict) and request.get("token") == token:
            yield request


def _emit(events: IO[str], token: str, request: str) -> Callable[[dict[str, Any]], None]:
    def emit(event: dict[str, Any]) -> None:
        # A line of its own, whatever somebody has left in the pipe before it.
        events.write("\n" + json.dumps({**event, "id": request, "token": token}) + "\n")
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
    request: dict[str, Any],
    setting: Setting,
    spares: Spares,
    emit: Callable[[dict[str, Any]], None],
) -> None:
    try:
        event = _graded(request, setting, spares, emit)
    except UnreadableError as error:
        event = {"event": "unreadable", "message": str(error)}
    except UnavailableError as error:
        event = {"event": "unavailable", "message": str(error)}
    except Exception as error:
        event = {"event": "grader_error", "message": f"{type(error).__name__}: {error}"}
    finally:
        spares.sweep()
    emit(event)  # only now: nothing of the submission is left that could write beside it
    _give_memory_back()
    if spares.more_will_follow:
        with contextlib.suppress(OSError):  # the next request says so, if it is still so
            spares.prepare(setting)


def _give_memory_back() -> None:
    """Large answers leave holes in the heap, which glibc keeps unless it is told."""
    with contextlib.suppress(AttributeError, OSError):  # another libc has none
        ctypes.CDLL(None).malloc_trim(0)


def _graded(
    request: dict[str, Any],
    setting: Setting,
    spares: Spares,
    emit: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    import diffusers
    import torch

    from infralens.examiner.candidate.link import Link, linked
    from infralens.examiner.candidate.notes import notes_on
    from infralens.examiner.run.plugin import ExaminerPlugin, run_checks

    lab = _lab(request)
    submission = read_submission(Path(request["submission"]))
    device = _device(request["device"])
    link = Link(
        lab,
        submission,
        lambda: spares.take(setting),
        limit_address_space=device == "cpu",
        max_processes=SANDBOX_PROCESSES if setting.isolation == "sandbox" else None,
    )
    try:
        with linked(link) as candidate:
            plugin = ExaminerPlugin(
                lab,
                link,
                candidate,
                seed=request["seed"],
                device=device,
                todos=frozenset(request["todos"]),
                emit=emit,
                **request["wishes"],
            )
            run_checks(plugin)
    finally:
        emit({"event": "starts", "seconds": link.starts})
    return {
        "event": "result",
        "grader_error": plugin.fault,
        "todos": [asdict(result) for result in plugin.results()],
        "notes": [asdict(note) for note in notes_on(submission, lab.masked, lab.stub)],
        "environment": {
            "device": device,
            "dtype": list(lab.dtypes),
            "python": platform.python_version(),
            "torch": torch.__version__,
            "diffusers": diffusers.__version__,
            "isolation": setting.isolation,
        },
    }


def _device(wanted: str) -> str:
    """The device to grade on: `auto` is cuda where there is one."""
    import torch

    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if wanted == "cuda" and not torch.cuda.is_available():
        raise UnavailableError("There is no CUDA device here; grade with --device cpu.")
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
