"""An examiner that has graded for long, or has grown, is replaced; without torch."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from infralens.examiner.errors import UnreadableError
from infralens.examiner.service.client import Bounds
from infralens.grading import Examiner, examiner, grade
from infralens.labs import find_lab, find_labs

FAKE = """
import json, sys
from infralens.examiner.isolation.ourselves import stay_private
stay_private()
print('{"event": "private"}', flush=True)
kept = []
for line in sys.stdin:
    if line.strip() and "id" in (request := json.loads(line)):
        event = {"event": "unreadable", "message": "no file", "id": request["id"]}
        print(json.dumps({**event, "token": request["token"]}), flush=True)
        kept.append(bytes([1]) * 40 * 2**20)
"""


def fake(**bounds: int) -> AbstractContextManager[Examiner]:
    return examiner(serve=True, program=("-c", FAKE), bounds=Bounds(**bounds))


def pid_of_the_next_grade(one: Examiner) -> int:
    lab = find_lab("lab-03", find_labs())
    with pytest.raises(UnreadableError):
        grade(lab, Path("nothing.py"), isolation="process", using=one)
    return one.process.pid


def test_after_many_grades() -> None:
    with fake(grades=2) as one:
        pids = [pid_of_the_next_grade(one) for _ in range(3)]
    assert pids[0] == pids[1] != pids[2]


@pytest.mark.skipif(sys.platform == "win32", reason="a resident size is asked for")
def test_when_it_has_grown() -> None:
    with fake(grown_bytes=100 * 2**20) as one:
        pids = [pid_of_the_next_grade(one) for _ in range(6)]
    assert pids[0] == pids[1] == pids[2]
    assert len(set(pids)) == 2
