"""Runs beside the learner's code: a folder to load from, and what is handed from part to part.

A watched component notes where the tensors that it is given come from: every tensor carries the
names of the components whose numbers are in it. Diffusers' own pipeline is watched by this file
too. It holds no answers.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

METHODS = {
    "text_encoder": ("forward",),
    "unet": ("forward",),
    "scheduler": ("scale_model_input", "step"),
    "vae": ("decode",),
}
"""What of a component is watched; the last of them is counted."""

folders: list[Any] = []  # the one to load from; it goes when this process does
watches: list[Watch] = []


def folder(files: dict[str, bytes]) -> str:
    """A new folder with these files, which are named by their paths in it: its path."""
    place = tempfile.TemporaryDirectory(prefix="infralens-model-", ignore_cleanup_errors=True)
    for name, data in files.items():
        path = Path(place.name, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    folders.append(place)
    return place.name


class Watch(TorchFunctionMode):
    """While it is entered, what a tensor is made from is known of every tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = False  # a component: what happens there is its own affair
        self.handed: dict[tuple[str, str], tuple[int, ...]] = {}
        self.calls: dict[str, int] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if not self.inside:
            drawn = isinstance((kwargs or {}).get("generator"), torch.Generator)
            mark(made, origins((args, kwargs)) | ({"generator"} if drawn else set()))
        return made

    def watched(self, name: str, function: Callable[..., Any], counted: bool) -> Callable[..., Any]:
        """The function, noting what it is given and marking what it gives."""

        @functools.wraps(function)
        def watching(*args: Any, **kwargs: Any) -> Any:
            if self.inside:
                return function(*args, **kwargs)
            self.note(name, (args, kwargs))
            self.calls[name] = self.calls.get(name, 0) + counted
            self.inside = True
            try:
                made = function(*args, **kwargs)
            finally:
                self.inside = False
            mark(made, {name})
            return made

        return watching

    def note(self, name: str, given: Any) -> None:
        """Every tensor that this component is given, once for each component it comes from."""
        for tensor in tensors(given):
            for origin in origins(tensor) - {name}:
                if tensor.ndim:
                    self.handed.setdefault((origin, name), tuple(tensor.shape))


def watch(parts: dict[str, Any]) -> None:
    """From here on it is noted what these components are given, in this thread."""
    now = Watch()
    watches.append(now)
    for name, methods in METHODS.items():
        part = parts.get(name)
        for method in methods:
            if hasattr(part, method) and hasattr(part, "__dict__"):
                counted = method == methods[-1]
                vars(part)[method] = now.watched(name, getattr(part, method), counted)
    reader = type(parts.get("tokenizer"))
    if callable(parts.get("tokenizer")):
        reading = now.watched("tokenizer", reader.__call__, True)
        parts["tokenizer"].__class__ = type(reader.__name__, (reader,), {"__call__": reading})
    now.__enter__()  # type: ignore[no-untyped-call]  # left in another call


def seen() -> dict[str, Any]:
    """What was handed over since `watch`, with its first shape, and how often each was called."""
    now = watches.pop()
    now.__exit__(None, None, None)  # type: ignore[no-untyped-call]
    handed = {" ".join(pair): list(shape) for pair, shape in now.handed.items()}
    return {"handed": handed, "calls": dict(now.calls)}


def described(part: Any) -> dict[str, Any]:
    """The class of a component and how many numbers are in it."""
    weights = part.parameters() if isinstance(part, torch.nn.Module) else ()
    return {"class": type(part).__name__, "size": sum(weight.numel() for weight in weights)}


def tensors(value: Any) -> Iterator[Tensor]:
    """All tensors in a value."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from tensors(each)
    elif hasattr(value, "values") and callable(value.values):  # a dict, or a library's output
        yield from tensors(list(value.values()))


def origins(value: Any) -> set[str]:
    """The components that the numbers in a value come from."""
    return {name for tensor in tensors(value) for name in getattr(tensor, "came_from", ())}


def mark(value: Any, names: set[str]) -> None:
    """Say of all tensors in a value where they come from."""
    for tensor in tensors(value):
        tensor.came_from = names  # type: ignore[attr-defined]
