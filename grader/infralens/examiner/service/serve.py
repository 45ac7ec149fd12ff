"""The examiner process: requests on stdin, events on stdout, as protocol says."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from infralens.examiner.candidate.submission import read_submission
from infralens.examiner.errors import UnavailableError, UnreadableError
from infralens.examiner.isolation.folders import remove
from infralens.examiner.isolation.killing import adopt_orphans, kill_descendants
from infralens.examiner.isolation.ourselves import end_with_the_parent, stay_private
from infralens.examiner.mistakes.replays import Replays
from infralens.examiner.run.suites import ImportedSuites
from infralens.examiner.service.libraries import Libraries
from infralens.examiner.service.protocol import lab_of
from infralens.examiner.service.stock import Setting, Spares, setting_of
from infralens.report import Note
from infralens.wrong import wrong_answers

if TYPE_CHECKING:
    from infralens.examiner.run.plugin import ExaminerPlugin

SANDBOX_PROCESSES = 64  # threads count too; a process level limit would count the user's others


@dataclass(frozen=True)
class Service:
    """What outlives a request."""

    spares: Spares
    libraries: Libraries
    suites: ImportedSuites
    replays: Replays


def main() -> None:
    """Serve until stdin ends. Whatever happens, no process of a candidate is left."""
    requests, events = sys.stdin, _private_stdout()
    stay_private()  # before there is a token to be read
    events.write('\n{"event": "private"}\n')
    events.flush()
    token = _token(requests)
    spares = Spares(more_will_follow="--serve" in sys.argv)
    service = Service(spares, Libraries(), ImportedSuites(), Replays())

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
    try:
        for request in _signed(requests, token):
            emit = _emit(events, token, request["id"])
            if request["rehearsed"] is not None:  # without a process of its own
                service.libraries.load()
                _answer(partial(_rehearsal, request, service, emit), service, emit)
                continue
            try:
                setting = setting_of(request)
                spares.begin(setting)
                service.libraries.load(setting.loaded)  # as the candidate does meanwhile
                spares.prepare(setting)
            except UnavailableError as error:
                emit({"event": "unavailable", "message": str(error)})
                continue
            except OSError as error:
                emit({"event": "grader_error", "message": f"no candidate starts: {error}"})
                continue
            _answer(partial(_result, request, setting, service, emit), service, emit)
            if spares.more_will_follow and not request["alone"]:
                with contextlib.suppress(OSError):  # the next request says so, if it is still so
                    spares.prepare(setting)
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


def _answer(
    work: Callable[[], dict[str, Any]], service: Service, emit: Callable[[dict[str, Any]], None]
) -> None:
    """Send what the work comes to, whatever that is."""
    try:
        event = work()
    except UnreadableError as error:
        event = {"event": "unreadable", "message": str(error)}
    except UnavailableError as error:
        event = {"event": "unavailable", "message": str(error)}
    except Exception as error:
        traceback.print_exc()
        event = {"event": "grader_error", "message": f"{type(error).__name__}: {error}"}
    finally:
        service.spares.sweep()
    sys.stdout.flush()  # what was printed, for those who wish to see it
    emit(event)  # only now: nothing of the submission is left that could write beside it
    _give_memory_back()


def _give_memory_back() -> None:
    """Large answers leave holes in the heap, which glibc keeps unless it is told."""
    with contextlib.suppress(AttributeError, OSError):  # another libc has none
        ctypes.CDLL(None).malloc_trim(0)


def _result(
    request: dict[str, Any],
    setting: Setting,
    service: Service,
    emit: Callable[[dict[str, Any]], None],
) -> dict[str, Any]:
    from infralens.examiner.candidate.link import Link, linked
    from infralens.examiner.candidate.notes import notes_on
    from infralens.examiner.run.plugin import ExaminerPlugin, run_checks

    lab = lab_of(request)
    submission = read_submission(Path(request["submission"]))
    device = _device(request["device"])
    link = Link(
        lab,
        submission,
        lambda: service.spares.take(setting),
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
            run_checks(plugin, service.suites)
    finally:
        emit({"event": "starts", "seconds": link.starts})
    notes = notes_on(submission, lab.masked, lab.stub)
    return _result_event(plugin, device, setting.isolation, notes)


def _rehearsal(
    request: dict[str, Any], service: Service, emit: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """The result of a wrong answer of the lab's own, which is run in this process."""
    from infralens.examiner.mistakes.rehearse import rehearsed
    from infralens.examiner.run.sabotage import perturbed
    from infralens.examiner.run.trial import plainly

    lab, device = lab_of(request), _device(request["device"])
    assert lab.solution is not None
    text, name = lab.solution.read_text(encoding="utf-8"), request["rehearsed"]
    if name:
        todo = request["todos"][0]
        wrong = next(of for of in wrong_answers(lab) if (of.todo, of.name) == (todo, name))
        text = wrong.edited(text)
    plugin = rehearsed(
        lab,
        text,
        service.suites,
        service.replays,
        seed=request["seed"],
        device=device,
        todos=frozenset(request["todos"]),
        emit=emit,
        hear=perturbed if request["sabotaged"] else plainly,
        **request["wishes"],
    )
    return _result_event(plugin, device, request["isolation"], ())


def _result_event(
    plugin: ExaminerPlugin, device: str, isolation: str, notes: Sequence[Note]
) -> dict[str, Any]:
    import diffusers
    import torch

    return {
        "event": "result",
        "grader_error": plugin.fault,
        "todos": [asdict(result) for result in plugin.results.of_todos()],
        "notes": [asdict(note) for note in notes],
        "environment": {
            "device": device,
            "dtype": list(plugin.lab.dtypes),
            "python": platform.python_version(),
            "torch": torch.__version__,
            "diffusers": diffusers.__version__,
            "isolation": isolation,
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
