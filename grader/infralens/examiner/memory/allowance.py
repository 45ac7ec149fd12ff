"""How much memory the examiner spends on what a submission asks of it, or answers.

A lent function computes with what it is handed: two small tensors that broadcast make a large one,
and what records its arguments keeps them all. So each call has a bound, and each check a larger
one. Linux keeps it; elsewhere, and where CUDA reserves address space as it likes, there is none.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator

import torch

from infralens.examiner.memory.meter import extent

ROOM_BYTES = 2**29
RESERVE_BYTES = 2**27  # what every use can count on: without it none is begun
NO_MEMORY = re.compile(r"allocate memory|Unable to allocate|bad_alloc")
CHECK_BYTES = 2**32
SENTENCE = (
    f"what your code has this function compute or keep takes more than {ROOM_BYTES >> 20:,} MiB"
)
CHECK_SENTENCE = f"what is computed with it takes more than {CHECK_BYTES >> 20:,} MiB"


class Allowance:
    """What the address space of this process may grow by: in a call, from the first use in it."""

    def __init__(self, most_bytes: int = ROOM_BYTES, sentence: str = SENTENCE) -> None:
        self.sentence = sentence
        cuda = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]  # torch's own has none
        now = None if cuda else extent(os.getpid())
        self.most = None if now is None else now + most_bytes

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """In here, more than the room is a MemoryError that says so."""
        if self.most is None:
            yield
            return
        import resource

        if (extent(os.getpid()) or 0) + RESERVE_BYTES > self.most:
            raise MemoryError(self.sentence)
        limits = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (self.most, limits[1]))
        try:
            yield
        except (MemoryError, RuntimeError) as error:
            if isinstance(error, MemoryError) or NO_MEMORY.search(str(error)):
                raise MemoryError(self.sentence) from error
            raise
        finally:
            resource.setrlimit(resource.RLIMIT_AS, limits)


@contextlib.contextmanager
def lifted() -> Iterator[None]:
    """No bound in here: what is started would inherit it."""
    if sys.platform == "win32":
        yield
        return
    import resource

    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (limits[1], limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
