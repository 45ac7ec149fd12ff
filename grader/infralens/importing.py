"""Importing large libraries without a pause in between."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def nothing_is_garbage() -> Iterator[None]:
    """While much is imported, which stays: looking through it again and again takes its time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
