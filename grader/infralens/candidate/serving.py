"""The loop that answers the examiner's calls, one at a time."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any, BinaryIO

import torch

from infralens.candidate import limits, loading, masks, warming
from infralens.candidate.lending import LentNamespace, RemoteError, resolver
from infralens.wire import (
    CannotCrossError,
    ChannelClosedError,
    ChannelError,
    Handle,
    pack,
    read_frame,
    unpack,
    whole_in_place_of_its_tensor,
)


class OutOfTurnError(RuntimeError):
    """A callback was used from another thread, or after the call that it belonged to."""


class Server:
    """One submission and what the examiner has asked to be kept of it."""

    def __init__(self, requests: BinaryIO, answers: BinaryIO) -> None:
        self.requests, self.answers = requests, answers
        self.numbers = itertools.count(1)
        self.kept: dict[int, Any] = {}
        self.numbers_of: dict[int, int] = {}
        self.module: ModuleType | None = None
        self.given: dict[str, ModuleType] = {}
        self.filename = ""
        self.flags = 0  # the __future__ features that a notebook's cells have asked for
        self.call: str | None = None
        self.thread = threading.get_ident()
        self.resolve = resolver(self._ask, lambda number: self.kept[number])

    def run(self) -> None:
        """Answer until the examiner closes the channel."""
        self._send({"kind": "ready"})
        while True:
            try:
                request = unpack(*read_frame(self.requests), resolve=self.resolve)
            except ChannelClosedError:
                return
            self.call = request["call"]
            self._answer(request)
            self.call = None

    def _answer(self, request: dict[str, Any]) -> None:
        answer: dict[str, Any] = {"kind": "answer", "call": request["call"]}
        try:
            answer["value"] = ANSWERS[request["kind"]](self, request)
        except BaseException as error:  # SystemExit and KeyboardInterrupt too: all are answers
            at_call = isinstance(error, NO_CALL)
            answer["raised"] = loading.describe(error, self.filename, at_call)
        _flush()
        self._send(answer)

    def _send(self, message: dict[str, Any]) -> None:
        try:
            frame = pack(message, self.keep)
        except CannotCrossError as error:
            frame = pack({"kind": "answer", "call": self.call, "unsendable": str(error)})
        except BaseException as error:  # a value whose own methods raise
            raised = loading.describe(error, self.filename)
            frame = pack({"kind": "answer", "call": self.call, "raised": raised})
        self.answers.write(frame)
        self.answers.flush()

    def keep(self, value: Any) -> Handle:
        """Keep an object here and let the examiner hold its number."""
        number = self.numbers_of.get(id(value))
        if number is None:
            number = next(self.numbers)
            self.kept[number] = value  # kept alive, so that its id stays its own
            self.numbers_of[id(value)] = number
        return Handle(number, type(value).__name__)

    def _ask(self, question: dict[str, Any]) -> Any:
        """Put a question to the examiner in the middle of a call."""
        if self.call is None or threading.get_ident() != self.thread:
            raise OutOfTurnError("this function may be called only inside the call it was given to")
        try:
            frame = pack({**question, "call": self.call})
        except CannotCrossError as error:
            raise TypeError(_refusal(question, error)) from None
        self.answers.write(frame)
        self.answers.flush()
        reply = self._reply()
        if "raised" in reply:
            raised = reply["raised"]
            raise (raised if isinstance(raised, RemoteError) else RemoteError(str(raised)))
        return reply["value"]

    def _reply(self) -> dict[str, Any]:
        try:
            return unpack(*read_frame(self.requests), resolve=self.resolve)
        except ChannelError as error:
            if _out_of_memory(error.__cause__):
                raise MemoryError("no memory is left for what was asked for") from None
            raise


def _out_of_memory(error: BaseException | None) -> bool:
    return isinstance(error, MemoryError) or "can't allocate memory" in str(error)


def _refusal(question: dict[str, Any], error: CannotCrossError) -> str:
    """Why these arguments do not go to the examiner's function."""
    for value in (*question.get("args", ()), *question.get("kwargs", {}).values()):
        if isinstance(value, LentNamespace):
            return whole_in_place_of_its_tensor(list(value.keys()))
    return f"an argument is {error}, which this function does not take"


class MissingError(AttributeError):
    """Nothing stands under the name that is to be called."""


class NoFunctionError(TypeError):
    """What stands under the name cannot be called."""


class DoesNotFitError(TypeError):
    """The call does not fit the parameters of the learner's function."""


NO_CALL = (MissingError, NoFunctionError, DoesNotFitError)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:  # the learner may have replaced or closed it
            continue


def _warm_up(server: Server, request: dict[str, Any]) -> None:
    masks.mask(request["masked"])
    warming.warm_up(request["imports"])


def _show(server: Server, request: dict[str, Any]) -> None:
    limits.be_seen()


def _load(server: Server, request: dict[str, Any]) -> None:
    server.filename = request["filename"]
    torch.set_default_dtype(torch.float32)
    masks.mask(request["masked"])
    limits.limit_files()
    limits.limit_cpu(request.get("cpu_seconds", 600))
    if request.get("max_processes"):
        limits.limit_processes(request["max_processes"])
    if request["memory_mb"]:
        limits.limit_memory(request["memory_mb"])
    if request["extent_bytes"]:
        limits.limit_extent(request["extent_bytes"])
    if request["refused"]:
        limits.refuse_calls(request["refused"])
    if request["cells"]:  # they follow one by one
        server.module = loading.begin(request["source"], server.filename)
        loading.be_a_notebook(server.module)
    else:
        server.module = loading.load(request["source"], server.filename)


def _cell(server: Server, request: dict[str, Any]) -> None:
    assert server.module is not None
    server.flags = loading.run_cell(
        server.module, request["source"], request["first"], server.flags
    )


def _target(server: Server, request: dict[str, Any]) -> Any:
    holder = server.module if request["on"] is None else request["on"]
    for part in request["name"].split(".") if request["name"] else ():
        holder = getattr(holder, part)
    return holder


def _function(server: Server, request: dict[str, Any]) -> Callable[..., Any]:
    try:
        function: Callable[..., Any] = _target(server, request)
    except AttributeError as error:
        if loading.describe(error, server.filename).frames:  # a property of the learner's raised it
            raise
        raise MissingError(str(error)) from None
    if not callable(function):
        raise NoFunctionError(f"a {type(function).__name__} cannot be called")
    return function


def _call(server: Server, request: dict[str, Any]) -> Any:
    function = _function(server, request)
    args, kwargs = tuple(request["args"]), request["kwargs"]
    misfit = loading.binding_error(function, args, kwargs)
    if misfit is not None:
        raise DoesNotFitError(str(misfit))
    with torch.no_grad() if request["no_grad"] else torch.enable_grad():
        value = function(*args, **kwargs)
    return server.keep(value) if request["keep"] else value


def _get(server: Server, request: dict[str, Any]) -> Any:
    return _target(server, request)


def _keep(server: Server, request: dict[str, Any]) -> Any:
    return server.keep(request["value"])


def _give(server: Server, request: dict[str, Any]) -> Any:
    """Run code of the lab's own beside the submission, once, and keep its module."""
    source = request["value"]
    if source not in server.given:
        module = ModuleType("given")
        exec(compile(source, "given", "exec", dont_inherit=True), module.__dict__)
        server.given[source] = module
    return server.keep(server.given[source])


def _state(server: Server, request: dict[str, Any]) -> dict[str, Any]:
    return dict(_target(server, request).state_dict())


def _set_state(server: Server, request: dict[str, Any]) -> None:
    _target(server, request).load_state_dict(request["value"])


def _requires_grad(server: Server, request: dict[str, Any]) -> dict[str, bool]:
    parameters = _target(server, request).named_parameters()
    return {name: bool(parameter.requires_grad) for name, parameter in parameters}


ANSWERS: dict[str, Callable[[Server, dict[str, Any]], Any]] = {
    "warm_up": _warm_up,
    "show": _show,
    "load": _load,
    "cell": _cell,
    "call": _call,
    "get": _get,
    "keep": _keep,
    "give": _give,
    "state": _state,
    "set_state": _set_state,
    "requires_grad": _requires_grad,
}
