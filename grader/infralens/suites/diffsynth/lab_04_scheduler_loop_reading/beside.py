"""Runs beside the learner's code: an object that feels like a scheduler of diffusers.

The scheduler itself stays with the grader. What stands here has its attributes and its methods with
their own parameters (so that `hasattr` and `inspect.signature` say what they say of diffusers), and
asks it for every answer. A generator that was passed on has advanced when the method returns.
"""

from __future__ import annotations

import builtins
import inspect
from typing import Any

import torch


class Output:
    """What `step` returns: read by name or in order, as diffusers' outputs are."""

    def __init__(self, prev_sample: torch.Tensor) -> None:
        self.prev_sample = prev_sample

    def __getitem__(self, key: str | int) -> torch.Tensor:
        return {"prev_sample": self.prev_sample, 0: self.prev_sample}[key]


def scheduler(
    lent: Any, name: str, attributes: list[str], methods: dict[str, list[tuple[str, int, bool]]]
) -> Any:
    """An object of a class called `name`; a method's parameters are (name, kind, required)."""
    body: dict[str, Any] = {key: _attribute(lent, key) for key in attributes}
    body |= {key: _method(lent, key, parameters) for key, parameters in methods.items()}
    return type(name, (), body)()


def _attribute(lent: Any, name: str) -> property:
    return property(lambda _: getattr(lent, name))


def _method(lent: Any, name: str, parameters: list[tuple[str, int, bool]]) -> Any:
    empty = inspect.Parameter.empty
    own = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    for key, kind, required in parameters:
        named = kind == inspect.Parameter.POSITIONAL_OR_KEYWORD
        default = None if named and not required else empty
        own.append(inspect.Parameter(key, inspect._ParameterKind(kind), default=default))
    signature = inspect.Signature(own)

    def method(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        try:
            answer = getattr(lent, name)(*args[1:], **kwargs)
        except RuntimeError as error:  # what the grader's side raised is told as its text
            raise _as_it_was(error) from None
        if name != "step":
            return answer
        generators = _listed(given.get("generator"))
        for generator, state in zip(generators, answer["states"], strict=False):
            generator.set_state(state)
        sample = answer["prev_sample"]
        return (sample,) if given.get("return_dict") is False else Output(sample)

    method.__name__ = name
    method.__signature__ = signature  # type: ignore[attr-defined]  # what inspect reads
    return method


def _listed(generators: Any) -> list[Any]:
    if generators is None:
        return []
    return list(generators) if isinstance(generators, list | tuple) else [generators]


def _as_it_was(error: RuntimeError) -> Exception:
    kind, _, text = str(error).partition(": ")
    known = getattr(builtins, kind, None)
    if isinstance(known, type) and issubclass(known, Exception):
        return known(text)
    return error
