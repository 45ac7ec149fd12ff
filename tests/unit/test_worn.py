"""An examiner that has graded for long, or has grown, is replaced; without torch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infralens.examiner.errors import UnreadableError
from infralens.examiner.service import client
from infralens.grading import Examiner, grade
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


@pytest.fixture
def fake() -> Iterator[Examiner]:
    running = Examiner(serve=True, program=("-c", FAKE))
    yield running
    running.close()


def pid_of_the_next_grade(examiner: Examiner) -> int:
    lab = find_lab("lab-03", find_labs())
    with pytest.raises(UnreadableError):
        grade(lab, Path("nothing.py"), isolation="process", using=examiner)
    return examiner.process.pid


def test_after_many_grades(fake: Examiner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MOST_GRADES", 2)
    pids = [pid_of_the_next_grade(fake) for _ in range(3)]
    assert pids[0] == pids[1] != pids[2]


@pytest.mark.skipif(sys.platform == "win32", reason="a resident size is asked for")
def test_when_it_has_grown(fake: Examiner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MOST_GROWN_BYTES", 100 * 2**20)
    pids = [pid_of_the_next_grade(fake) for _ in range(6)]
    assert pids[0] == pids[1] == pids[2]
    assert len(set(pids)) == 2
