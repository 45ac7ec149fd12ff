"""The form of an answer: which kinds of values stand where in it. The form itself is ours."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

# A kind by its name ("int|float": either), [form] of a list of any length, {key: form} of a dict.
Form = str | list[Any] | dict[str, Any]


def form_of(value: Any) -> Form:
    """Lists and dicts as they are, in them the name of each value's type.

    A tuple is told as a list. A float that is not finite is "nan", "inf" or "-inf", and one number
    in a tensor is "tensor of a number".
    """
    if isinstance(value, dict):
        return {str(key): form_of(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [form_of(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Tensor) and value.numel() == 1 and value.is_floating_point():
        return "tensor of a number"
    return type(value).__name__


def first_unlike(form: Form, wanted: Form, place: str = "") -> str | None:
    """Where a form is another one than it must be, in words; None where it is not."""
    here = place or "it"
    told = form if isinstance(form, str) else type(form).__name__
    if isinstance(wanted, str):
        return None if told in wanted.split("|") else f"{here} is {told}, not {wanted}"
    if isinstance(form, list) and isinstance(wanted, list):
        pairs = [(f"{place}[{i}]", part, wanted[0]) for i, part in enumerate(form)]
    elif not isinstance(form, dict) or not isinstance(wanted, dict):
        return f"{here} is {told}, not {type(wanted).__name__}"
    elif form.keys() != wanted.keys():
        return f"{here} has the keys {sorted(form)}, not {sorted(wanted)}"
    else:
        pairs = [(f"{place}[{key!r}]", form[key], wanted[key]) for key in form]
    odd = (first_unlike(part, other, at) for at, part, other in pairs)
    return next((sentence for sentence in odd if sentence), None)
