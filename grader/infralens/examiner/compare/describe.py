"""Values in words: what was called with what, and the numbers around a difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from infralens.examiner.run.trial import Call
from infralens.wire import Handle, Raised

FEW = 6
LONG = 240  # characters of a text


def kind(value: Any) -> str:
    """What sort of thing it is: "a float32 tensor of shape (2, 4)", "None", "a list of 3"."""
    if value is None:
        return "None"
    if isinstance(value, Tensor):
        return f"{article(dtype_name(value.dtype))} tensor of shape {tuple(value.shape)}"
    if isinstance(value, np.ndarray):
        return f"{article(str(value.dtype))} array of shape {value.shape}"
    if isinstance(value, list | tuple | dict):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, Raised):
        return f"{value.type_name}: {value.text}"
    if isinstance(value, bool | int | float | str):
        text = repr(value)
        return f"the {type(value).__name__} {text if len(text) <= 80 else text[:77] + '...'}"
    record = getattr(value, "__dict__", {}).get("_record")
    if isinstance(record, Handle):  # the examiner's handle on an object of the learner's
        return f"{article(record.type_name)} object"
    return article(type(value).__name__)


def article(noun: str) -> str:
    """The noun with its article: "an int64", "a uint8"."""
    return f"{'an' if noun[:1].lower() in tuple('aeio') else 'a'} {noun}"


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def brief(value: Any) -> str:
    """A value as it stands in a call: numbers when they are few, otherwise dtype and shape."""
    if isinstance(value, Tensor):
        if value.numel() == 1 and value.dim() == 0:
            return f"tensor({number(value.item())})"
        if value.dim() == 1 and value.numel() <= FEW:
            return f"tensor({numbers(value.tolist())})"
        return f"<{dtype_name(value.dtype)} {tuple(value.shape)}>"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, dict):
        inside = ", ".join(f"{key!r}: {brief(item)}" for key, item in value.items())
        return "{" + inside + "}"
    if isinstance(value, list | tuple):
        shown = [brief(item) for item in value[:FEW]] + ["…"] * (len(value) > FEW)
        text = ", ".join(shown)
        return f"[{text}]" if isinstance(value, list) else f"({text})"
    if isinstance(value, str):
        return repr(value if len(value) <= LONG else value[: LONG - 1] + "…")
    if isinstance(value, bool | int | type(None)):
        text = repr(value)
        return text if len(text) <= 80 else text[:77] + "..."
    if isinstance(value, np.ndarray):
        return f"<{value.dtype} image {value.shape}>"
    return f"<{kind(value).removeprefix('a ').removeprefix('an ')}>"


def brief_pair(expected: Any, answer: Any) -> tuple[str, str, str | None]:
    """Two values that differ, shown where they do, and where that is if it is not plain to see."""
    both = (expected, answer)
    if isinstance(expected, dict) and isinstance(answer, dict):
        return _brief_entries(expected, answer)
    if not all(isinstance(value, list | tuple) for value in both) or len(expected) != len(answer):
        return brief(expected), brief(answer), None
    pairs = zip(expected, answer, strict=True)
    place = next((i for i, (right, mine) in enumerate(pairs) if brief(right) != brief(mine)), 0)
    if place < FEW:
        return brief(expected), brief(answer), None
    start = place - FEW // 2
    shown = [f"… {brief(value[start:])}" for value in both]
    return shown[0], shown[1], f"first at [{place}]"


def _brief_entries(
    expected: Mapping[Any, Any], answer: Mapping[Any, Any]
) -> tuple[str, str, str | None]:
    """The entries of two dicts in one order; of many only those that differ, and which they are."""
    keys = list(dict.fromkeys([*expected, *answer]))
    both = [key for key in expected if key in answer]
    told = {
        "missing": [key for key in expected if key not in answer],
        "not expected": [key for key in answer if key not in expected],
        "different": [key for key in both if brief(expected[key]) != brief(answer[key])],
    }
    some = [key for listed in told.values() for key in listed] if len(keys) > FEW else keys

    def shown(side: Mapping[Any, Any]) -> str:
        entries = [f"{brief(key)}: {brief(side[key])}" for key in some[:FEW] if key in side]
        return "{" + ", ".join(entries + ["…"] * (len(side) > len(entries))) + "}"

    where = [f"{word}: {_listed(listed)}" for word, listed in told.items() if listed]
    return shown(expected), shown(answer), "; ".join(where) if len(keys) > 1 else None


def _listed(keys: Sequence[Any]) -> str:
    return ", ".join([brief(key) for key in keys[:FEW]] + ["…"] * (len(keys) > FEW))


def call_text(call: Call) -> str:
    """The call as a line of code."""
    names = list(call.parameters) + [""] * len(call.args)
    parts = [
        f"{name}={brief(value)}" if name else brief(value)
        for name, value in zip(names, call.args, strict=False)
    ]
    parts += [f"{name}={brief(value)}" for name, value in call.kwargs.items()]
    return f"{call.name}({', '.join(parts)})"


def number(value: float) -> str:
    """A number with seven significant digits, which is all that float32 has."""
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def numbers(values: Sequence[Any]) -> str:
    return "[" + ", ".join(number(value) for value in values) + "]"


def around(tensor: Tensor, index: tuple[int, ...]) -> str:
    """The numbers of `tensor` from `index` on, along the last axis; all of a short one."""
    if tensor.dim() == 0:
        return number(tensor.item())
    if tensor.dim() == 1 and tensor.numel() <= 2 * FEW:
        return numbers(tensor.tolist())
    row = tensor[index[:-1]]
    start = min(index[-1], max(row.numel() - FEW, 0))
    part = row[start : start + FEW]
    prefix = "… " if start else ""
    suffix = " …" if start + FEW < row.numel() else ""
    return prefix + numbers(part.tolist()) + suffix
