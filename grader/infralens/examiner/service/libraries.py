"""The libraries that an examiner judges with, imported once and set up for judging."""

from __future__ import annotations

import contextlib
import gc
import importlib
from collections.abc import Iterable

from infralens.importing import nothing_is_garbage


class Libraries:
    """What this process has of them. What is imported before it is needed is not waited for then.

    A first grade takes as long as the candidate's imports and then the checks: whatever the checks
    import themselves is to be here by the time that the candidate answers.
    """

    def __init__(self) -> None:
        self._loaded: set[str] = set()

    def load(self, more: Iterable[str] = ()) -> None:
        """torch and diffusers, and `more` modules beside them."""
        wanted = {"torch", "diffusers", *more} - self._loaded
        if not wanted:
            return
        if self._loaded:
            gc.collect()  # what an earlier grade left would be frozen as well
        with nothing_is_garbage():
            if "diffusers" in wanted:
                _set_up()
            if any(name.partition(".")[0] == "transformers" for name in wanted):
                _quieten_transformers()
            for name in sorted(wanted):
                with contextlib.suppress(Exception):  # the candidate comes to it as well, and tells
                    importlib.import_module(name)
            gc.freeze()  # nor later
        self._loaded |= wanted


def _set_up() -> None:
    import diffusers
    import torch

    diffusers.utils.logging.set_verbosity_error()  # its advice is for users, not for graders
    torch.set_num_threads(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


def _quieten_transformers() -> None:
    from infralens.examiner.compare.references import quiet_transformers  # it imports torch

    quiet_transformers()
