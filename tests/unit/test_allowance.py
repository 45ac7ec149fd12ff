"""What lent functions may take of the examiner's memory, in one call of the submission."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest
import torch

from infralens.examiner.memory import allowance
from infralens.examiner.memory.allowance import SENTENCE, Allowance, lifted

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps this bound")
GIB = 2**30


def test_more_than_the_room_is_refused_in_a_sentence_and_only_inside() -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(MemoryError, match=SENTENCE), Allowance().kept():
        torch.empty(2 * GIB, dtype=torch.uint8)
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    torch.empty(2 * GIB, dtype=torch.uint8)
    with Allowance().kept():
        torch.empty(GIB // 4, dtype=torch.uint8)


def test_numpy_and_python_are_refused_in_the_same_sentence() -> None:
    import numpy as np

    for take in (lambda: np.empty(2 * GIB, dtype=np.uint8), lambda: bytearray(2 * GIB)):
        with pytest.raises(MemoryError, match=SENTENCE), Allowance().kept():
            take()


def test_other_errors_stay_as_they_are() -> None:
    with pytest.raises(RuntimeError, match="must match the size"), Allowance().kept():
        torch.ones(2) + torch.ones(3)


def test_no_use_is_begun_that_has_not_its_share() -> None:
    call, held = Allowance(), []

    def use_often() -> None:
        for _ in range(64):
            with call.kept():
                held.append(torch.empty(allowance.RESERVE_BYTES // 4, dtype=torch.uint8))

    with pytest.raises(MemoryError, match=SENTENCE):
        use_often()
    assert (
        len(held)
        <= 4 * (allowance.ROOM_BYTES - allowance.RESERVE_BYTES) // allowance.RESERVE_BYTES + 1
    )
    held.clear()
    with call.kept():  # what was let go is room again
        torch.empty(allowance.RESERVE_BYTES // 2, dtype=torch.uint8)


def test_a_check_has_a_bound_of_its_own_and_a_use_in_it_another() -> None:
    def work() -> None:
        torch.empty(2 * GIB, dtype=torch.uint8)
        with pytest.raises(MemoryError, match=SENTENCE), Allowance().kept():
            torch.empty(GIB, dtype=torch.uint8)
        torch.empty(2 * GIB, dtype=torch.uint8)
        torch.empty(4 * GIB, dtype=torch.uint8)

    with pytest.raises(MemoryError, match="as said"), Allowance(3 * GIB, "as said").kept():
        work()


def test_what_is_started_meanwhile_inherits_no_bound() -> None:
    ask = "import resource; print(resource.getrlimit(resource.RLIMIT_AS))"
    with Allowance().kept():
        bound = resource.getrlimit(resource.RLIMIT_AS)
        with lifted():
            said = subprocess.run([sys.executable, "-c", ask], capture_output=True, check=True)
        assert resource.getrlimit(resource.RLIMIT_AS) == bound
    assert said.stdout.decode().strip() == str(resource.getrlimit(resource.RLIMIT_AS))
