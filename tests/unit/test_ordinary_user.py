"""As an ordinary user, for whom processes can be out of view (root sees them all)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ordinary import as_ordinary_user

pytestmark = pytest.mark.sandbox

SUITE = """
@todo("90.1")
def test_one(candidate):
    assert_equals(candidate.one(), value=1)
"""
HONEST = "def one(): return 1\n"
IN_MEMORY = """
import os, tempfile, time
def one():
    kept = [tempfile.TemporaryFile(dir="/dev/shm") for _ in range(4)]
    for file in kept:
        os.write(file.fileno(), bytes(60 * 2**20))
    time.sleep(5)
    return 1
"""
HIDDEN = """
import ctypes, time
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # nobody else is to look at this process
def one():
    time.sleep(5)
    return 1
"""
GRADED = """
import json, sys
from pathlib import Path
from infralens.grading import examiner, grade
from infralens.labs import place_at, read_lab

suite, root, *files = map(Path, sys.argv[1:])
lab = read_lab(suite / "lab.yaml", place_at(root))
with examiner(serve=True) as warm:
    for file in files:
        report = grade(lab, file, isolation="process", using=warm)
        said = report.todos[0].checks[0].message
        print(json.dumps([report.grader_error, report.score, said]), flush=True)
"""


def test_what_lies_in_memory_files_counts_and_who_cannot_be_looked_at_is_ended(
    workshop: Any, light_diffusers: Path
) -> None:
    lab = workshop.lab(SUITE, limits={"memory_mb": 128, "call_seconds": 20.0})
    workshop.folder.chmod(0o755)
    files = [str(workshop.submission(text)) for text in (HONEST, IN_MEMORY, HIDDEN)]
    root = lab.place.exercises.parent
    program = [sys.executable, "-P", "-c", GRADED, str(lab.suite), str(root), *files]
    done = subprocess.run(
        as_ordinary_user(program, readable=[workshop.folder, light_diffusers]),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd="/",
        env={**os.environ, "HOME": "/nonexistent"},
    )
    assert done.returncode == 0, done.stderr
    honest, in_memory, hidden = map(json.loads, done.stdout.splitlines())
    assert honest == [None, 2, ""]
    assert in_memory == [None, 0, "your code used more than 128 MiB of memory"]
    assert hidden == [None, 0, "your code hid what it holds in memory"]
