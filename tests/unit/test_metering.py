"""How much memory a submission takes, measured by grades of a lab made here."""

from __future__ import annotations

from typing import Any

import pytest

from infralens.examiner.isolation import bubblewrap
from infralens.report import CheckResult, Report

SUITE = """
    SIDE = 4096  # its square in float32 is 67 MB

    @todo("90.1")
    def test_rows_are_summed_without_the_square(candidate, draw):
        "Each row of the square is summed."
        x = draw.tensor(SIDE).cpu()
        with metered(candidate, budget=8_000_000) as mine:
            answer = mine.row_sums(x)
        assert_matches_formula(
            answer,
            computed=lambda: x * x.sum(),
            truth=lambda: x.double() * x.double().sum(),
        )
"""

BLOCKS = """
    @todo("90.1")
    def test_blocks_are_added_one_by_one(candidate, draw):
        "Each block is added and let go."
        blocks = [draw.tensor(1_000_000).cpu() for _ in range(24)]
        with metered(candidate, budget=24_000_000) as mine:
            answer = mine.total(lambda j: blocks[j], len(blocks))
        assert_matches_formula(
            answer,
            computed=lambda: sum(blocks),
            truth=lambda: sum(block.double() for block in blocks),
        )
"""

FRUGAL = """
import torch
def row_sums(x):
    return torch.stack([(row * x).sum() for row in x])
"""
IN_FLOAT64 = """
import numpy as np, torch
def row_sums(x):
    x64 = x.numpy().astype(np.float64)
    return torch.from_numpy(np.array([(row * x64).sum() for row in x64]).astype(np.float32))
"""
WITH_A_HEAVY_IMPORT = """
import torch
import torch.testing, xml.dom.minidom, sqlite3, unittest.mock
import diffusers.utils
def row_sums(x):
    return torch.stack([(row * x).sum() for row in x])
"""
WITH_THREADS = """
import torch
from concurrent.futures import ThreadPoolExecutor
def row_sums(x):
    with ThreadPoolExecutor(4) as pool:
        return torch.stack(list(pool.map(lambda row: (row * x).sum(), x)))
"""
BY_NUMPYS_BLAS = """
import numpy as np, torch
def row_sums(x):
    ones = np.ones(len(x))
    return torch.from_numpy(np.array([row * (x.numpy() @ ones) for row in x.numpy()], np.float32))
"""
RIGHT = {
    "numpy's product": BY_NUMPYS_BLAS,
    "a row at a time": FRUGAL,
    "numpy in float64": IN_FLOAT64,
    "a heavy import": WITH_A_HEAVY_IMPORT,
    "four threads": WITH_THREADS,
}

WHOLE = """
import torch
def row_sums(x):
    return (x[:, None] * x[None, :]).sum(1)
"""
WHOLE_IN_NUMPY = """
import torch
def row_sums(x):
    return torch.from_numpy((x.numpy()[:, None] * x.numpy()).sum(1))
"""
GREEDY_AT_IMPORT = """
import torch
room = torch.zeros(4096, 4096)
def row_sums(x):
    return torch.mul(x[:, None], x[None, :], out=room).sum(1)
"""
RAISES_ITS_LIMIT = """
import resource, torch
def row_sums(x):
    try:
        resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
    except (OSError, ValueError):
        pass
    return (x[:, None] * x[None, :]).sum(1)
"""
BY_A_CHILD = """
import os, subprocess, sys, time, torch
PROGRAM = '''
import array, sys, time
x = array.array('f', sys.stdin.buffer.read())
square = bytearray(len(x) * len(x) * 4)
time.sleep(0.3)
total = sum(x)
sys.stdout.buffer.write(array.array('f', [v * total for v in x]).tobytes())
'''
def row_sums(x):
    done = subprocess.run([sys.executable, "-c", PROGRAM], input=x.numpy().tobytes(),
                          capture_output=True)
    return torch.frombuffer(bytearray(done.stdout), dtype=torch.float32)
"""
BY_A_QUICK_CHILD = """
import os, torch
def row_sums(x):
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return x * x.sum()
"""
UNMAPS_A_LIBRARY = """
import ctypes, mmap, re, time, torch
ROOM, SQUARE = 24 * 2**20, 35 * 2**20  # the room is made of tables that only exceptions in C++ need
def row_sums(x):
    libc = ctypes.CDLL(None)
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    for line in open("/proc/self/maps"):
        end, mode = re.match(r"\\w+-(\\w+) (\\S+)", line).groups()
        if mode == "r-xp" and "libtorch_cpu" in line:
            assert libc.munmap(int(end, 16) - ROOM, ROOM) == 0
    square = SQUARE * b"1"
    time.sleep(0.1)
    return x * x.sum()
"""
SHARES_A_MAP = UNMAPS_A_LIBRARY.replace(
    'SQUARE * b"1"', 'mmap.mmap(-1, SQUARE); [square.write(b"1" * 2**20) for _ in range(35)]'
)
KEEPS_A_FILE = """
import os, torch
def row_sums(x):
    file = os.memfd_create("square")
    for row in x:
        os.write(file, (row * x).numpy().tobytes())
    os.lseek(file, 0, os.SEEK_SET)
    sums = [torch.frombuffer(bytearray(os.read(file, 4 * len(x))), dtype=x.dtype).sum() for _ in x]
    return torch.stack(sums)
"""
TOO_MUCH = "this call may take 8.0 MB of memory, and yours took more"
WRONG = {
    "the whole square": (WHOLE, TOO_MUCH),
    "the whole square in numpy": (WHOLE_IN_NUMPY, TOO_MUCH),
    "greedy at import": (GREEDY_AT_IMPORT, TOO_MUCH),
    "raises its limit": (RAISES_ITS_LIMIT, TOO_MUCH),
    "unmaps a library": (UNMAPS_A_LIBRARY, TOO_MUCH),
    "unmaps a library, shares a map": (SHARES_A_MAP, TOO_MUCH),
    "by a child": (BY_A_CHILD, "started another process"),
    "by a quick child": (BY_A_QUICK_CHILD, "started another process"),
    "keeps a file in memory": (KEEPS_A_FILE, "Operation not permitted"),
}

KEEPS_BLOCKS = """
import torch
def total(blocks, n):
    return torch.stack([blocks(j) for j in range(n)]).sum(0)
"""
LETS_BLOCKS_GO = """
import torch
def total(blocks, n):
    found = blocks(0)
    for j in range(1, n):
        found += blocks(j)
    return found
"""

SANDBOXED = pytest.mark.skipif(bubblewrap.unavailable() is not None, reason="needs bubblewrap")
ISOLATIONS = ["process", pytest.param("sandbox", marks=SANDBOXED)]


@pytest.fixture(scope="module")
def measured(workshop: Any) -> Any:
    rows = "torch.stack([(row * x).sum() for row in x])"
    wrong = {"whole-square": (rows, "(x[:, None] * x[None, :]).sum(1)")}
    lab = workshop.lab(SUITE, solution=FRUGAL, wrong=wrong)

    def graded(text: str, isolation: str) -> Report:
        return workshop.grade(lab, text, isolation=isolation)  # type: ignore[no-any-return]  # a fixture

    return graded


def only_check(report: Report) -> CheckResult:
    assert report.grader_error is None
    return report.todos[0].checks[0]


# Of the others nothing depends on the level: threads take their rows one at a time as well.
IN_A_SANDBOX = ("numpy's product", "a heavy import", "four threads")


@pytest.mark.parametrize(
    ("name", "isolation"),
    [
        *((name, "process") for name in RIGHT),
        *(pytest.param(name, "sandbox", marks=SANDBOXED) for name in IN_A_SANDBOX),
    ],
)
def test_an_answer_within_the_budget_passes(measured: Any, name: str, isolation: str) -> None:
    report = measured(RIGHT[name], isolation)
    assert report.passed, only_check(report).message


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("name", WRONG)
def test_an_answer_beyond_the_budget_fails(measured: Any, name: str, isolation: str) -> None:
    text, reason = WRONG[name]
    report = measured(text, isolation)
    assert reason in only_check(report).message
    assert report.score == 0


def test_too_much_memory_is_said_and_named(measured: Any) -> None:
    check = only_check(measured(WHOLE, "process"))
    assert check.message == TOO_MUCH
    assert check.misconception == "whole-square"
    assert check.detail is not None
    assert check.detail.yours == "an allocation of 67.1 MB was refused"


def test_what_a_callback_gave_counts(workshop: Any) -> None:
    lab = workshop.lab(BLOCKS)
    assert workshop.grade(lab, LETS_BLOCKS_GO).passed
    check = only_check(workshop.grade(lab, KEEPS_BLOCKS))
    assert check.message == "this call may take 24.0 MB of memory, and yours took more"
