"""What a suite holds of a submission: its functions, its objects, and what is lent to it.

`candidate.sigmas(...)`, `mine = candidate.Euler(config)`: every use is one request over the link.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from infralens import wire
from infralens.examiner.errors import NO_ANSWER, LearnerError, MismatchError, NoAnswerError
from infralens.examiner.run.trial import Call, current_trial

if TYPE_CHECKING:
    from infralens.examiner.candidate.link import Link


@dataclass(frozen=True)
class RemoteObject:
    """An object lent to the learner: what it may read and call. Every use is recorded."""

    target: Any
    type_name: str
    attributes: tuple[str, ...]
    methods: tuple[str, ...]
    uses: list[tuple[str, tuple[Any, ...], dict[str, Any]]]


def remote(
    target: Any, *, attributes: Sequence[str] = (), methods: Sequence[str] = ()
) -> RemoteObject:
    """Lend `target` to the learner with these attributes and methods; `uses` records each use.

    An attribute that is itself a RemoteObject or a `wire.Namespace` is lent the same way.
    """
    return RemoteObject(target, type(target).__name__, tuple(attributes), tuple(methods), [])


class Handle:
    """An object of the learner's that stays in the candidate.

    `mine.step(...)` calls its method, `mine.sigmas` reads a value of it; `set_state`, `state_of`
    and `requires_grad` are functions beside this class: no name of the learner's is taken.
    """

    def __init__(self, link: Link, record: wire.Handle, path: str = "") -> None:
        self._link, self._record, self._path = link, record, path
        self._generation = link.generation

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Member(self._link, self, self._record.type_name, name).read()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _Member(self._link, self, self._record.type_name, "")(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<{self._record.type_name} object in the candidate>"

    def _ask(self, kind: str, **more: Any) -> Any:
        return self._link.request({"kind": kind, "on": self, "name": "", **more})


class _Member:
    """A name of the submission, or of an object in it."""

    def __init__(self, link: Link, on: Handle | None, owner: str, name: str) -> None:
        self.link, self.on, self.owner, self.name = link, on, owner, name

    @property
    def full_name(self) -> str:
        return ".".join(part for part in (self.owner, self.name) if part)

    def read(self) -> Any:
        """The attribute's value, or this member again when it is a method."""
        definition = self.link.submission.definitions.get(self.full_name)
        if definition is not None and definition.plain:
            return self
        try:
            value = self.link.request({"kind": "get", "on": self.on, "name": self.name})
        except LearnerError as error:
            if error.raised.type_name == "AttributeError" and not error.raised.frames:
                raise self._missing() from None
            raise
        if isinstance(value, Handle) and value._record.type_name in (
            "method",
            "function",
        ):
            return self
        return value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(args, kwargs, keep=False)

    def kept(self, *args: Any, **kwargs: Any) -> Any:
        """Call, and keep the result in the candidate whatever it is."""
        return self._call(args, kwargs, keep=True)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any], keep: bool) -> Any:
        definition = self.link.submission.definitions.get(self.full_name)
        if definition is None:
            init = self.link.submission.definitions.get(f"{self.full_name}.__init__")
            definition = init
        parameters = definition.parameters if definition else ()
        current_trial().calls.append(Call(self.full_name, args, kwargs, parameters))
        message = {"kind": "call", "on": self.on, "name": self.name, "args": args}
        try:
            return self.link.request({**message, "kwargs": kwargs, "keep": keep})
        except LearnerError as error:
            raise self._explained(error, args, kwargs) from None

    def _missing(self) -> Exception:
        """Why the name is not there: its cell of a notebook failed, or nobody defines it."""
        sentence = self.link.submission.missing(self.full_name, self.link.lab.short)
        failed = self.link.failure_of(self.full_name)
        return failed or MismatchError(sentence, answer=NO_ANSWER)

    def _explained(
        self, error: LearnerError, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Exception:
        raised = error.raised
        if not raised.at_call:
            return error
        if raised.type_name == "MissingError":
            return self._missing()
        if raised.type_name == "NoFunctionError":
            return MismatchError(f"`{self.full_name}` is not a function", answer=NO_ANSWER)
        definition = self.link.submission.definitions.get(self.full_name)
        where = f" ({self.link.submission.told(definition.line)})" if definition else ""
        count = len(args) + len(kwargs)
        return MismatchError(
            f"`{self.full_name}`{where} cannot be called with {count} "
            f"argument{'s' * (count != 1)}: {raised.text}. Its parameters are the lab's: "
            "rename them if you like, but keep their number and order",
            answer=NO_ANSWER,
        )


class Candidate:
    """What a suite's checks call. Each attribute is a function or class of the submission."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def __getattr__(self, name: str) -> _Member:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Member(self._link, None, "", name)


@contextlib.contextmanager
def with_gradients(candidate: Any) -> Iterator[None]:
    """In here the learner's functions are called as in anybody's program, with gradients on.

    Everywhere else they are called under torch.no_grad().
    """
    candidate._link.no_grad = False
    try:
        yield
    finally:
        candidate._link.no_grad = True


def keep(candidate: Any, value: Any) -> Any:
    """Send a value once and hold a handle on it, so that calls can share (and change) it."""
    link: Link = candidate._link
    return link.request({"kind": "keep", "on": None, "name": "", "value": value})


class Given:
    """Code of the lab's own in the candidate. Its functions are called like the learner's.

    The calls are not the learner's: none is reported, and what goes wrong in one is no answer.
    """

    def __init__(self, candidate: Any, source: str) -> None:
        self._link = candidate._link
        self._module = self._asked({"kind": "give", "on": None, "name": "", "value": source})

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            message = {"kind": "call", "on": self._module, "name": name, "keep": False}
            return self._asked({**message, "args": args, "kwargs": kwargs})

        return call

    def _asked(self, message: dict[str, Any]) -> Any:
        try:
            return self._link.request(message)
        except LearnerError as error:
            raised = error.raised
            sentence = f"what this lab gives your code failed beside it: {raised.type_name}: "
            raise NoAnswerError(sentence + raised.text) from None


def given(candidate: Any, source: str) -> Given:
    """Have the text `source`, Python of the suite's own, run beside the submission.

    For what must live with the learner's code and is no part of it, such as components loaded from
    a folder. The submission can read and change it, so it may hold no answers.
    """
    return Given(candidate, source)


def fetch(handle: Any) -> Any:
    """The value that a handle stands for."""
    return handle._ask("get")


def state_of(handle: Any) -> Any:
    """The state_dict of a module in the candidate: {name: tensor}."""
    return handle._ask("state")


def set_state(handle: Any, state: dict[str, Any]) -> None:
    """Load a state_dict into a module in the candidate."""
    handle._ask("set_state", value=state)


def requires_grad(handle: Any) -> Any:
    """{parameter name: whether it is trainable} of a module in the candidate."""
    return handle._ask("requires_grad")
