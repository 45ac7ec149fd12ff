"""The examiner: runs a suite, holds the references, decides. Suites import these names.

Loaded on first use, so that the examiner process can start the candidate before it imports torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from infralens.examiner.candidate.proxies import (
        fetch,
        given,
        keep,
        remote,
        requires_grad,
        set_state,
        state_of,
        with_gradients,
    )
    from infralens.examiner.compare.asserts import (
        as_pixels,
        assert_agrees,
        assert_equals,
        assert_form,
        assert_matches,
        assert_matches_formula,
        assert_number,
        assert_property,
        assert_raises,
        assert_tensor,
        unpack,
    )
    from infralens.examiner.compare.forms import form_of
    from infralens.examiner.compare.inputs import Draw
    from infralens.examiner.compare.recorded import (
        Recorded,
        assert_calls,
        comparable,
        recorded,
        told,
    )
    from infralens.examiner.compare.references import library_function, quiet_transformers
    from infralens.examiner.errors import LearnerError
    from infralens.examiner.memory.metered import metered
    from infralens.examiner.run.plugin import todo
    from infralens.wire import Namespace

_HOMES = {
    "candidate.proxies": (
        "fetch",
        "given",
        "keep",
        "remote",
        "requires_grad",
        "set_state",
        "state_of",
        "with_gradients",
    ),
    "errors": ("LearnerError",),
    "compare.asserts": (
        "as_pixels",
        "assert_agrees",
        "assert_equals",
        "assert_form",
        "assert_matches",
        "assert_matches_formula",
        "assert_number",
        "assert_property",
        "assert_raises",
        "assert_tensor",
        "unpack",
    ),
    "compare.forms": ("form_of",),
    "compare.inputs": ("Draw",),
    "memory.metered": ("metered",),
    "run.plugin": ("todo",),
    "compare.recorded": ("Recorded", "assert_calls", "comparable", "recorded", "told"),
    "compare.references": ("library_function", "quiet_transformers"),
}

__all__ = [
    "Draw",
    "LearnerError",
    "Namespace",
    "Recorded",
    "as_pixels",
    "assert_agrees",
    "assert_calls",
    "assert_equals",
    "assert_form",
    "assert_matches",
    "assert_matches_formula",
    "assert_number",
    "assert_property",
    "assert_raises",
    "assert_tensor",
    "comparable",
    "fetch",
    "form_of",
    "given",
    "keep",
    "library_function",
    "metered",
    "quiet_transformers",
    "recorded",
    "remote",
    "requires_grad",
    "set_state",
    "state_of",
    "todo",
    "told",
    "unpack",
    "with_gradients",
]


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    if name == "Namespace":
        return importlib.import_module("infralens.wire").Namespace
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
