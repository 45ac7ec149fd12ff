"""Modules that a lab masks: importing one gives a clear sentence.

At process level this is advice to an honest learner; the sandbox is what makes it hold.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class MaskedModuleError(ImportError):
    """A submission imported what this lab asks it to write itself."""


class _Mask(MetaPathFinder):
    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        for name in self.names:
            if fullname == name or fullname.startswith(name + "."):
                raise MaskedModuleError(
                    f"{name} cannot be imported in this lab: it holds the answer. "
                    "Write that part yourself."
                )
        return None


def mask(names: Iterable[str]) -> None:
    """Refuse these modules, and everything in them, from now on."""
    names = tuple(names)
    if not names:
        return
    for loaded in list(sys.modules):
        if any(loaded == name or loaded.startswith(name + ".") for name in names):
            del sys.modules[loaded]
    sys.meta_path.insert(0, _Mask(names))
