"""A candidate in the examiner's own process, for code that is trusted: misconceptions, debugging.

It behaves as `candidates.Candidate` does: arguments are copies, results are values or handles.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from infralens.examiner.candidate.proxies import RemoteObject
from infralens.examiner.errors import NO_ANSWER, LearnerError, MismatchError
from infralens.examiner.run.trial import Call, current_trial, handed_over, received
from infralens.wire import Namespace, Raised, whole_in_place_of_its_tensor

Runner = Callable[[int, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
PLAIN = (bool, int, float, str, bytes, type(None), torch.dtype, torch.device, torch.Generator)


def run_plainly(
    index: int, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Call it; what it raises becomes the LearnerError that a candidate's answer would become."""
    try:
        return function(*args, **kwargs)
    except KeyboardInterrupt:  # somebody's, at the keyboard
        raise
    except BaseException as error:  # SystemExit too, as in the candidate
        names = tuple(kind.__name__ for kind in type(error).__mro__ if kind is not object)
        raise LearnerError(Raised(names, str(error))) from error


class RehearsedCandidate:
    """Names and what stands under them here. `run` makes the calls: a debugger steps in there."""

    def __init__(
        self,
        names: Mapping[str, Any],
        run: Runner = run_plainly,
        given: dict[str, ModuleType] | None = None,
    ) -> None:
        self._names, self._runner = names, run
        self._given = {} if given is None else given
        self._link = self
        self.no_grad = True

    def _run(
        self,
        index: int,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        with torch.set_grad_enabled(not self.no_grad):
            return self._runner(index, function, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in self._names:
            raise MismatchError(f"`{name}` is missing", answer=NO_ANSWER)
        return _RehearsedMember(self._names[name], name, self._run)

    def request(self, message: dict[str, Any]) -> Any:
        """`keep` and `give`, and the calls of what was given: requests made on a candidate."""
        if message["kind"] == "give":
            return _RehearsedHandle(self._module(message["value"]), self._run)
        if message["kind"] == "call":
            function = getattr(message["on"]._target, message["name"])
            args, kwargs = _sent(message["args"]), _sent(message["kwargs"])
            with torch.set_grad_enabled(not self.no_grad):
                return _wrapped(run_plainly(0, function, args, kwargs), self._run)
        return _RehearsedHandle(_sent(message["value"]), self._run)

    def _module(self, source: str) -> ModuleType:
        """The module of a lab's own code: run once for all that share `given`."""
        if source not in self._given:
            module = ModuleType("given")
            exec(compile(source, "given", "exec", dont_inherit=True), module.__dict__)
            self._given[source] = module
        return self._given[source]


class _RehearsedMember:
    def __init__(self, function: Any, name: str, run: Runner) -> None:
        self._function, self._name, self._run = function, name, run

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _arrived(self._made(args, kwargs), self._run)

    def kept(self, *args: Any, **kwargs: Any) -> Any:
        return _RehearsedHandle(self._made(args, kwargs), self._run)

    def _made(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        trial = current_trial()
        trial.calls.append(Call(self._name, args, kwargs))
        sent = tuple(_sent(arg) for arg in args)
        named = {key: _sent(value) for key, value in kwargs.items()}
        return self._run(len(trial.calls) - 1, self._function, sent, named)


class _RehearsedHandle:
    def __init__(self, target: Any, run: Runner) -> None:
        self._target, self._run = target, run

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        type_name = type(self._target).__name__
        try:
            value = getattr(self._target, name)
        except AttributeError:
            raise MismatchError(f"`{type_name}.{name}` is missing", answer=NO_ANSWER) from None
        if callable(value) and not isinstance(value, torch.nn.Module):
            return _RehearsedMember(value, f"{type_name}.{name}", self._run)
        return _arrived(value, self._run)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = type(self._target).__name__
        return _RehearsedMember(self._target, name, self._run)(*args, **kwargs)

    def _ask(self, kind: str, **more: Any) -> Any:
        if kind == "state":
            return _sent(dict(self._target.state_dict()))
        if kind == "set_state":
            return self._target.load_state_dict(_sent(more["value"]))
        if kind == "requires_grad":
            return {name: p.requires_grad for name, p in self._target.named_parameters()}
        return _wrapped(self._target, self._run)


class _RehearsedRemote:
    """A RemoteObject as the learner sees it, with its uses recorded."""

    def __init__(self, lent: RemoteObject) -> None:
        self._lent = lent

    def __getattr__(self, name: str) -> Any:
        lent = self._lent
        if name in lent.methods:

            def method(*args: Any, **kwargs: Any) -> Any:
                lent.uses.append((name, args, kwargs))
                return getattr(lent.target, name)(*args, **kwargs)

            return _lent_function(method)
        if name in lent.attributes:
            lent.uses.append((name, (), {}))
            return _sent(getattr(lent.target, name))
        raise AttributeError(name)


class _RehearsedNamespace(dict[str, Any]):
    __getattr__ = dict.__getitem__


def _lent_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the examiner as the learner sees it: it takes tensors and gives copies."""

    def call(*args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            if isinstance(value, _RehearsedNamespace):
                raise TypeError(whole_in_place_of_its_tensor(list(value)))
        handed_over(args, kwargs)
        return _sent(function(*args, **kwargs))

    return call


def _sent(value: Any) -> Any:
    """A copy, as the wire would make it."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, _RehearsedHandle):
        return value._target
    if isinstance(value, RemoteObject):
        return _RehearsedRemote(value)
    if isinstance(value, Namespace):
        return _RehearsedNamespace({key: _sent(item) for key, item in value.fields.items()})
    if isinstance(value, list | tuple):
        return type(value)(_sent(item) for item in value)
    if isinstance(value, dict):
        return {key: _sent(item) for key, item in value.items()}
    return _lent_function(value) if callable(value) else copy.deepcopy(value)


def _arrived(value: Any, run: Runner) -> Any:
    """A value that has come from the submission: a suspect until an assertion passes it."""
    answer = _wrapped(value, run)
    received(answer)
    return answer


def _wrapped(value: Any, run: Runner) -> Any:
    """A value as it would arrive: tensors as copies, objects as handles."""
    if isinstance(value, Tensor):
        with contextlib.suppress(RuntimeError):
            return value.detach().contiguous().clone()
    if isinstance(value, PLAIN) or type(value).__module__ == "numpy":
        return value
    if isinstance(value, list | tuple):
        return (
            tuple(_wrapped(item, run) for item in value)
            if isinstance(value, tuple)
            else [_wrapped(item, run) for item in value]
        )
    if isinstance(value, dict):
        return {key: _wrapped(item, run) for key, item in value.items()}
    return _RehearsedHandle(value, run)
