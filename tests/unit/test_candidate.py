"""A submission in a process of its own, seen through whole grades of labs made here."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from infralens.examiner import assert_equals
from infralens.examiner.errors import MismatchError
from infralens.examiner.mistakes.naming import NAMING_SECONDS, Names
from infralens.examiner.run.trial import Trial
from infralens.grading import Wishes, examiner, grade
from infralens.labs import find_lab, find_labs
from infralens.report import CheckResult, Report


def checks_of(report: Report) -> dict[str, CheckResult]:
    return {check.name: check for todo in report.todos for check in todo.checks}


def names_in(suite: str) -> Sequence[str]:
    return re.findall(r"^def (test_\w+)", suite, re.MULTILINE)


# What a suite can do with a submission

USES = """
import threading
import torch
from torch import nn


class Counter:
    def __init__(self, start):
        self.total = start

    def add(self, n):
        self.total += n
        return self.total

    @property
    def double(self):
        return 2 * self.total

    def itself(self):
        return self


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 1, bias=False)
        self.fixed = nn.Linear(1, 1, bias=False).requires_grad_(False)

    def forward(self, x):
        return self.linear(x)


def fill(x, value):
    x.fill_(value)

def total(x):
    return x.sum()

def grad_mode():
    return torch.is_grad_enabled()

def loop(denoise, timesteps, x):
    for t in timesteps:
        x = denoise(x * 0.5, t, guidance=2.0)
    return x

def kept(callback):
    globals()["later"] = callback

def use_kept():
    return caught(later)

def caught(callback, *args):
    try:
        return callback(*args)
    except Exception as error:
        return f"{type(error).__name__}: {error}"

def handed_much(callback):
    return caught(callback, torch.ones(2**20))

def until_refused(callback, *args):
    while (said := caught(callback, *args)) is None:
        pass
    return said

def in_a_thread(callback):
    said = []
    thread = threading.Thread(target=lambda: said.append(caught(callback)))
    thread.start()
    thread.join()
    return said[0]

def with_an_object(callback):
    return caught(callback, object())

def about(thing):
    return {
        "order": thing.order, "secret": hasattr(thing, "secret"), "dir": dir(thing),
        "factor": thing.config.scaling_factor, "same": thing.config["scaling_factor"],
        "get": thing.config.get("nothing", 4), "repr": repr(thing),
    }

def step(thing, x):
    output = thing.step(x, 3, sample=x)
    return output.prev_sample, output[0], thing.inner.times(2)

def meddle(thing):
    thing.order = 5

def force(thing):
    return caught(thing._ask, {"kind": "use", "n": thing._record.number, "name": "secret"})

def noise(generator):
    return torch.randn(4, generator=generator)

def advanced(generator):
    torch.randn(4, generator=generator)
    return generator

def kinds(*values, **named):
    return [type(v).__name__ for v in values], {k: type(v).__name__ for k, v in named.items()}

def unsendable():
    return {"a": [1, torch.eye(2).to_sparse()]}

def a_set():
    return {1, 2}
"""

USES_SUITE = """
from infralens.wire import Namespace
from infralens.examiner.candidate.in_process import RehearsedCandidate

def said(call):
    try:
        return f"returned {call()!r}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"

def expect(found, wanted):
    assert_equals(found, value=wanted, what=f"{found!r}")

class Thing:
    order, secret = 2, 7
    config = Namespace({"scaling_factor": 0.25})

    def step(self, output, t, sample):
        return Namespace({"prev_sample": output + sample + t})

class Inner:
    def times(self, n):
        return 21 * n

def thing():
    target = Thing()
    target.inner = remote(Inner(), methods=["times"])
    return remote(target, attributes=["order", "config", "inner"], methods=["step"])

@todo("90.1")
def test_attributes_methods_and_properties_of_an_object_are_reached(candidate):
    mine = candidate.Counter(3)
    expect(mine.add(4), 7)
    expect([mine.total, mine.double], [7, 14])
    expect(mine.itself().add(n=1), 8)

@todo("90.1")
def test_two_objects_keep_their_own_state(candidate):
    one, other = candidate.Counter(1), candidate.Counter(10)
    one.add(1), other.add(1)
    expect([one.total, other.total], [2, 11])

@todo("90.1")
def test_a_missing_attribute_is_named(candidate):
    sentence = said(lambda: candidate.Counter(1).doubled)
    expect(sentence.startswith("MismatchError: lab-90 is missing `Counter.doubled`"), True)

@todo("90.1")
def test_the_state_of_a_module_is_read_and_set(candidate):
    net = candidate.Net()
    weights = {"linear.weight": torch.tensor([[2.0, 3.0]]), "fixed.weight": torch.ones(1, 1)}
    set_state(net, weights)
    expect(state_of(net)["linear.weight"], weights["linear.weight"])
    expect(net(torch.tensor([[1.0, 10.0]])), torch.tensor([[32.0]]))
    expect(requires_grad(net), {"linear.weight": True, "fixed.weight": False})

@todo("90.1")
def test_arguments_are_copies(candidate):
    x = torch.ones(3)
    candidate.fill(x, 5.0)
    expect(x, torch.ones(3))

@todo("90.1")
def test_changes_in_place_are_seen_in_what_is_kept(candidate):
    kept = keep(candidate, torch.ones(3))
    candidate.fill(kept, 5.0)
    expect(candidate.total(kept), torch.tensor(15.0))
    expect(fetch(kept), torch.full((3,), 5.0))

@todo("90.1")
def test_a_result_can_be_kept_whatever_it_is(candidate):
    answer = candidate.kinds.kept(1)
    expect(fetch(answer), (["int"], {}))

@todo("90.1")
def test_a_callback_is_seen_once_per_timestep_with_its_inputs(candidate):
    seen = []
    def denoise(x, t, guidance):
        seen.append((x.tolist(), t, guidance))
        return x + t
    answer = candidate.loop(denoise, [3, 2, 1], torch.tensor([8.0]))
    expect(seen, [([4.0], 3, 2.0), ([3.5], 2, 2.0), ([2.75], 1, 2.0)])
    expect(answer, torch.tensor([3.75]))

@todo("90.1")
def test_a_callback_is_refused_to_another_thread(candidate):
    seen = []
    answer = candidate.in_a_thread(lambda: seen.append(1))
    expect([answer.split(":")[0], seen], ["OutOfTurnError", []])

@todo("90.1")
def test_a_callback_that_an_object_holds_serves_its_later_calls(candidate):
    candidate.kept(lambda: 5)
    expect(candidate.use_kept(), 5)

@todo("90.1")
def test_a_callback_is_refused_after_the_check_that_it_belonged_to(candidate):
    expect(candidate.use_kept().split(":")[0], "RemoteError")

@todo("90.1")
def test_what_a_callback_raises_reaches_the_submission(candidate):
    def refuse():
        raise ValueError("no such timestep")
    expect(candidate.caught(refuse), "RemoteError: ValueError: no such timestep")

@todo("90.1")
def test_a_callback_called_wrongly_raises_in_the_submission(candidate):
    expect(candidate.caught(lambda x: x).startswith("RemoteError: TypeError"), True)

@todo("90.1")
def test_a_callback_that_is_handed_too_much_is_the_submissions_mistake(candidate):
    rows, columns = torch.ones(9_000, 1), torch.ones(1, 9_000)
    expect(candidate.caught(lambda *x: x[0] * x[1], rows, columns), "RemoteError: ValueError: "
        "what this function gives is a tensor of shape (9000, 9000), more than 256 MiB")
    expect(candidate.caught(lambda n: n * n, 2**40),
        "RemoteError: ValueError: what this function gives is an int of 81 bits")

@todo("90.1")
def test_a_callback_is_handed_no_more_than_some_times_what_the_check_gave(candidate):
    expect(candidate.handed_much(lambda x: 1), "RemoteError: ValueError: "
        "4.2 MB were handed to this function, far more than the check gave")
    expect(candidate.caught(lambda x: 1, torch.ones(2**20)), 1)

@todo("90.1")
def test_a_callback_is_handed_no_device_that_holds_no_numbers(candidate):
    for device in ("meta", "meta:0"):
        expect(candidate.caught(lambda *x: 1, device),
            "RemoteError: ValueError: nothing is on the device meta here")

@todo("90.1")
def test_a_callback_takes_no_more_memory_than_a_check_has_room_for(candidate):
    rows, columns = torch.ones(100_000, 1), torch.ones(1, 100_000)
    expect(candidate.caught(lambda *x: x[0] * x[1], rows, columns), "RemoteError: MemoryError: "
        "what your code has this function compute or keep takes more than 512 MiB")
    held = []
    said = candidate.until_refused(lambda x: held.append(x.repeat(2**10)), torch.ones(2**14))
    expect(said[:24], "RemoteError: MemoryError")
    expect(4 < len(held) < 9, True)

@todo("90.1")
def test_an_object_is_no_argument_for_a_callback(candidate):
    sentence = candidate.with_an_object(lambda x: x)
    expect(sentence.startswith("TypeError: an argument is a object"), True)

@todo("90.1")
def test_a_remote_object_shows_what_is_declared_and_nothing_else(candidate):
    expect(candidate.about(thing()), {
        "order": 2, "secret": False, "dir": ["config", "inner", "order", "step"], "factor": 0.25,
        "same": 0.25, "get": 4, "repr": "<Thing>",
    })

@todo("90.1")
def test_every_use_of_a_remote_object_is_recorded(candidate):
    lent = thing()
    one, other, inner = candidate.step(lent, torch.ones(2))
    expect(one, torch.full((2,), 5.0))
    expect(other, torch.full((2,), 5.0))
    expect(inner, 42)
    expect([name for name, _, _ in lent.uses], ["step", "inner"])
    (_, args, kwargs), _ = lent.uses
    expect([args[1], list(kwargs)], [3, ["sample"]])

@todo("90.1")
def test_a_remote_object_cannot_be_set(candidate):
    lent = thing()
    expect("cannot be set in this lab" in said(lambda: candidate.meddle(lent)), True)
    expect(lent.target.order, 2)

@todo("90.1")
def test_a_forged_use_of_a_remote_object_is_refused(candidate):
    lent = thing()
    expect(candidate.force(lent), "RemoteError: AttributeError: Thing has no secret")
    expect(lent.uses, [])

@todo("90.1")
def test_a_generator_gives_the_same_numbers_there(candidate):
    ours, twin = torch.Generator().manual_seed(5), torch.Generator().manual_seed(5)
    expect(candidate.noise(ours), torch.randn(4, generator=twin))
    expect(torch.randn(4, generator=ours), candidate.noise(torch.Generator().manual_seed(5)))

@todo("90.1")
def test_a_generator_comes_back_where_it_stands(candidate):
    twin = torch.Generator().manual_seed(5)
    torch.randn(4, generator=twin)
    mine = candidate.advanced(torch.Generator().manual_seed(5))
    expect(torch.randn(4, generator=mine), torch.randn(4, generator=twin))

@todo("90.1")
def test_arguments_arrive_with_their_kinds(candidate):
    import numpy as np
    answer = candidate.kinds(True, 1, 1.0, "a", b"a", None, (1,), [1], {"a": 1}, torch.float16,
        torch.device("cpu"), torch.ones(1), np.zeros((1, 1, 3), np.uint8), image=True)
    expect(answer[0], ["bool", "int", "float", "str", "bytes", "NoneType", "tuple", "list", "dict",
        "dtype", "device", "Tensor", "ndarray"])
    expect(answer[1], {"image": "bool"})

@todo("90.1")
def test_what_cannot_cross_is_one_sentence(candidate):
    expect(said(candidate.unsendable), "MismatchError: returned a Tensor that is not dense "
        "(layout torch.sparse_coo), which cannot be graded")

@todo("90.1")
def test_an_object_where_a_number_belongs_is_named_by_its_type(candidate):
    answer = candidate.a_set()
    expect(said(lambda: assert_equals(answer, value=1, what="it")),
        "MismatchError: it: a set object, expected the int 1")

@todo("90.1")
def test_gradients_are_off_in_a_call(candidate):
    expect(candidate.grad_mode(), False)

@todo("90.1")
def test_gradients_are_on_where_they_are_asked_for(candidate):
    for one in (candidate, RehearsedCandidate({"grad_mode": torch.is_grad_enabled})):
        with with_gradients(one):
            expect(one.grad_mode(), True)
        expect(one.grad_mode(), False)
"""


@pytest.fixture(scope="module")
def uses(workshop: Any) -> Report:
    report: Report = workshop.grade(workshop.lab(USES_SUITE), USES)
    return report


@pytest.mark.parametrize("check", names_in(USES_SUITE))
def test_a_suite_finds_that(uses: Report, check: str) -> None:
    assert uses.grader_error is None
    found = checks_of(uses)[check]
    assert (found.status, found.message) == ("passed", "")


# Calls that give no answer

FATE_SUITE = """
def expects_one(number, name):
    @todo(number)
    def check(candidate):
        assert_equals(getattr(candidate, name)(), value=1, what="the answer")
    return check

""" + "\n".join(
    f'test_{name} = expects_one("90.{number}", "{name}")'
    for number, name in enumerate(
        [
            "hangs",
            "exits",
            "segfaults",
            "takes_memory",
            "takes_memory_in_children",
            "raises_without_text",
            "leaves_by_exception",
            "interrupts",
            "writes_to_the_channel",
            "prints",
            "prints_much",
            "prints_and_dies",
            "recurses",
            "fine",
        ],
        start=1,
    )
)
FATES = """
import ctypes, os, subprocess, sys, time

def hangs():
    time.sleep(60)

def exits():
    os._exit(0)

def segfaults():
    ctypes.string_at(0)

def takes_memory():
    return len(bytearray(8 * 2**30))

def takes_memory_in_children():
    for _ in range(4):
        if os.fork() == 0:
            block = bytearray(b"x") * (200 * 2**20)
            time.sleep(60)
    time.sleep(60)

class Mute(Exception):
    def __str__(self):
        raise RuntimeError("mute")

def raises_without_text():
    raise Mute

def leaves_by_exception():
    sys.exit(0)

def interrupts():
    raise KeyboardInterrupt

def writes_to_the_channel():
    for number in range(3, 30):
        try:
            os.write(number, b"x" * 64)
        except OSError:
            pass
    return 1

def prints():
    print("to stdout", flush=True)
    print("to stderr", file=sys.stderr)
    subprocess.run(["echo", "from a child"])
    os.write(1, b"past Python \\xff\\n")
    return 2

def prints_much():
    for _ in range(50):
        print("spam" * 25_000)
    return 2

def prints_and_dies():
    print("the last words")
    sys.stdout.flush()
    os._exit(3)

def recurses():
    return recurses()

def fine():
    return 1
"""


@pytest.fixture(scope="module")
def fates(workshop: Any) -> Report:
    lab = workshop.lab(
        FATE_SUITE,
        todos=[f"90.{number}" for number in range(1, 15)],
        limits={"call_seconds": 2.0, "lab_seconds": 100.0, "memory_mb": 500},
    )
    report: Report = workshop.grade(lab, FATES)
    return report


def test_the_call_after_all_that_still_scores(fates: Report) -> None:
    assert fates.grader_error is None
    assert [todo.id for todo in fates.todos if todo.score] == ["90.14"]
    assert fates.score == 2


@pytest.mark.parametrize(
    ("name", "status", "says"),
    [
        ("hangs", "timeout", "no answer within 2 seconds"),
        ("exits", "error", "your code ended its process with exit code 0"),
        ("segfaults", "error", r"your code crashed its process \(signal SIGSEGV\)"),
        ("takes_memory", "error", "your code raised MemoryError on line"),
        ("takes_memory_in_children", "error", "your code used more than 500 MiB of memory"),
        ("raises_without_text", "error", r"your code raised Mute on line \d+: \(its text"),
        ("leaves_by_exception", "error", r"your code raised SystemExit on line \d+: 0"),
        ("interrupts", "error", "your code raised KeyboardInterrupt on line"),
        ("writes_to_the_channel", "error", "your code sent bytes that begin no frame"),
        ("recurses", "error", "your code raised RecursionError on line"),
    ],
)
def test_a_call_without_an_answer_says_why(
    fates: Report, name: str, status: str, says: str
) -> None:
    check = checks_of(fates)[f"test_{name}"]
    assert check.status == status
    assert re.match(says, check.message)


def test_all_that_is_printed_is_caught_in_its_order(fates: Report) -> None:
    detail = checks_of(fates)["test_prints"].detail
    assert detail is not None
    assert detail.output == "to stdout\nto stderr\nfrom a child\npast Python \ufffd\n"


def test_megabytes_of_output_are_bounded_and_counted(fates: Report) -> None:
    detail = checks_of(fates)["test_prints_much"].detail
    assert detail is not None
    assert detail.output is not None
    assert len(detail.output) < 20_000
    assert re.search(r"and 4,98\d,\d{3} bytes more$", detail.output)


def test_what_was_printed_before_the_end_of_the_process_is_not_lost(fates: Report) -> None:
    detail = checks_of(fates)["test_prints_and_dies"].detail
    assert detail is not None
    assert detail.output == "the last words\n"


def test_what_one_check_printed_is_not_shown_with_another(fates: Report) -> None:
    detail = checks_of(fates)["test_recurses"].detail
    assert detail is not None
    assert "spam" not in (detail.output or "")


def test_the_time_for_a_lab_is_limited_as_a_whole(workshop: Any) -> None:
    suite = """
    @todo("90.1")
    @pytest.mark.parametrize("case", range(20))
    def test_slow(candidate, case):
        assert_equals(candidate.slow(), value=1)

    @todo("90.2")
    def test_quick(candidate):
        assert_equals(candidate.quick(), value=1)
    """
    lab = workshop.lab(
        suite, todos=["90.1", "90.2"], limits={"call_seconds": 1.0, "lab_seconds": 1.5}
    )
    text = "import time\ndef slow():\n    time.sleep(0.4)\n    return 1\ndef quick(): return 1\n"
    started = time.monotonic()
    report = workshop.grade(lab, text)
    assert time.monotonic() - started < 1.5 + 4
    assert report.score == 0
    assert report.grader_error is None
    last = checks_of(report)["test_quick"]
    assert (last.status, last.message) == (
        "timeout",
        "your code has used its 1.5 seconds for this lab",
    )


def test_an_endless_import_is_ended_once_and_for_all(workshop: Any) -> None:
    suite = """
    @todo("90.1")
    @pytest.mark.parametrize("case", range(60))
    def test_one(candidate, case):
        assert_equals(candidate.one(), value=1)
    """
    lab = workshop.lab(suite, limits={"call_seconds": 1.0, "lab_seconds": 60.0})
    started = time.monotonic()
    report = workshop.grade(lab, "while True:\n    pass\n")
    assert time.monotonic() - started < 15
    assert checks_of(report)["test_one"].status == "timeout"


ONE = """
@todo("90.1")
def test_one(candidate):
    assert_equals(candidate.one(), value=1)
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("import diffusers\ndef one(): return 1\n", 1),
        ("def one():\n    from diffusers.schedulers import scheduling_ddim\n    return 1\n", 2),
        (
            "import importlib\ndef one():\n    return importlib.import_module('diffusers') and 1\n",
            3,
        ),
    ],
    ids=["at the top", "in a call", "by name"],
)
def test_a_masked_module_gives_one_sentence(workshop: Any, text: str, line: int) -> None:
    report = workshop.grade(workshop.lab(ONE, masked=["diffusers"]), text)
    assert report.score == 0
    message = checks_of(report)["test_one"].message
    assert f"on line {line}: diffusers cannot be imported in this lab" in message


def test_a_masked_module_is_an_import_error_and_others_are_not_masked(workshop: Any) -> None:
    text = """
    import json, torch
    try:
        import diffusers
    except ImportError:
        def one(): return 1
    """
    assert workshop.grade(workshop.lab(ONE, masked=["diffusers"]), text).passed


BESIDE = """
import sys
from pathlib import Path
for folder in (Path(__file__).parent, Path(__file__).resolve().parent, Path.cwd(), "."):
    sys.path.insert(0, str(folder))
import helpers
def one(): return helpers.ONE
"""


@pytest.mark.parametrize(
    "isolation", ["process", pytest.param("sandbox", marks=pytest.mark.sandbox)]
)
def test_a_file_beside_the_submission_is_out_of_reach_at_every_level(
    workshop: Any, isolation: str
) -> None:
    lab = workshop.lab(ONE)
    path = workshop.submission(BESIDE)
    path.with_name("helpers.py").write_text("ONE = 1\n", encoding="utf-8")
    report = workshop.grade(lab, path, isolation=isolation)
    assert (report.score, report.grader_error) == (0, None)
    assert checks_of(report)["test_one"].message == (
        "your code raised ModuleNotFoundError on line 6: No module named 'helpers'; "
        f"only {path.name} is graded: move what you need from helpers.py into it"
    )


def test_a_submission_that_defines_nothing_scores_nothing(workshop: Any) -> None:
    report = workshop.grade(workshop.lab(ONE), "")
    assert (report.score, report.grader_error) == (0, None)
    message = checks_of(report)["test_one"].message
    assert message == "lab-90 is missing `one`. Put it back under that name."


# Two at a time

MANY = 40  # threads of a submission that takes all it can have


def threads_under(process: psutil.Process) -> int:
    return sum(child.num_threads() for child in process.children(recursive=True))


@pytest.mark.sandbox
def test_a_submission_that_takes_every_thread_takes_none_from_another(
    workshop: Any, light_diffusers: Path
) -> None:
    """Linux counts threads by user: each sandbox has a user of its own."""
    greedy = """
    import threading, time
    def one():
        try:
            while True:
                threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        except RuntimeError:
            time.sleep(60)
    """
    modest = """
    import threading
    def one():
        thread = threading.Thread(target=print)
        thread.start()
        thread.join()
        return 1
    """
    lab = workshop.lab(ONE, limits={"call_seconds": 60.0, "lab_seconds": 90.0})
    path = workshop.submission(greedy)
    with examiner(serve=True) as other, ThreadPoolExecutor() as pool:
        process = psutil.Process(other.process.pid)
        pool.submit(grade, lab, path, isolation="sandbox", using=other)
        deadline = time.monotonic() + 60
        while threads_under(process) < MANY and time.monotonic() < deadline:
            time.sleep(0.1)
        assert threads_under(process) >= MANY
        report = workshop.grade(lab, modest, isolation="sandbox")
        process.kill()
    assert checks_of(report)["test_one"].message == ""
    assert report.passed


# Nothing stays behind


def test_grades_that_are_over_take_no_memory(workshop: Any, tmp_path: Path) -> None:
    told = tmp_path / "told"
    suite = f"""
    import gc
    from infralens.examiner.run.plugin import ExaminerPlugin

    @todo("90.1")
    def test_one(candidate):
        living = sum(isinstance(known, ExaminerPlugin) for known in gc.get_objects())
        with open({str(told)!r}, "a") as file:
            print(living, gc.get_freeze_count(), file=file)
        assert_equals(candidate.one(), value=1, what="one")
    """
    lab = workshop.lab(suite)
    for _ in range(4):
        assert workshop.grade(lab, "def one(): return 1").passed
    lines = told.read_text(encoding="utf-8").splitlines()
    living, frozen = zip(*(map(int, line.split()) for line in lines), strict=True)
    assert living[1:] == (1, 1, 1)  # the grade that runs; the first was frozen with its imports
    assert max(frozen[1:]) <= frozen[0]


def test_a_lent_function_that_is_kept_at_work_is_stopped_in_time(workshop: Any) -> None:
    suite = """
    @todo("90.1")
    def test_long(candidate):
        def busy(x):
            while x is not None:
                try:
                    x = x + 1
                except Exception:
                    continue
        assert_equals(candidate.called(busy, torch.ones(3)), value=1)

    @todo("90.2")
    def test_short(candidate):
        assert_equals(candidate.called(lambda x: x + 1, 0), value=1)
    """
    lab = workshop.lab(
        suite, todos=["90.1", "90.2"], limits={"call_seconds": 1.0, "lab_seconds": 60.0}
    )
    text = """
    def called(callback, x):
        try:
            return callback(x)
        except BaseException:
            return 1
    """
    started = time.monotonic()
    report = workshop.grade(lab, text)
    assert time.monotonic() - started < 15
    assert report.grader_error is None
    long, short = (checks_of(report)[name] for name in ("test_long", "test_short"))
    assert long.status == "timeout"
    assert long.message == (
        "no answer within 1 seconds: what this lab lent your code was still at work on what it was "
        "given"
    )
    assert short.status == "passed"


FLOOD = """
    import sys
    def one(callback):
        frame = sys._getframe()
        while "server" not in frame.f_locals:
            frame = frame.f_back
        server = frame.f_locals["server"]
        question = {"kind": "callback", "call": server.call, "n": callback._number}
        while True:
            server.answers.write(pack({**question, "args": (), "kwargs": {}}))
            read()
"""


@pytest.mark.parametrize(
    ("read", "says"),
    [
        ("read_frame(server.requests)", "no answer within 1 seconds"),
        ("server.answers.flush()", "asked again before it had taken the last answer"),
    ],
    ids=["with every answer taken", "with none"],
)
def test_a_flood_of_questions_is_ended_and_its_reader_with_it(
    workshop: Any, tmp_path: Path, read: str, says: str
) -> None:
    told = tmp_path / "told"
    suite = f"""
    import threading, time

    @todo("90.1")
    def test_one(candidate):
        with open({str(told)!r}, "a") as file:
            print(threading.active_count(), file=file)
        assert_equals(candidate.one(lambda: 1), value=1, what="one")
    """
    lab = workshop.lab(suite, limits={"call_seconds": 1.0, "lab_seconds": 20.0})
    text = "    from infralens.wire import pack, read_frame" + FLOOD.replace("read()", read)
    for _ in range(4):
        check = checks_of(workshop.grade(lab, text))["test_one"]
        assert says in check.message
    counts = [int(line) for line in told.read_text(encoding="utf-8").split()]
    assert max(counts) <= counts[0] + 1  # the last reader may be about to end


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_candidate_that_forks_leaves_nothing_behind(workshop: Any, tmp_path: Path) -> None:
    text = f"""
    import os, pathlib, subprocess, sys, time
    notes = pathlib.Path({str(tmp_path)!r})

    def note():
        (notes / str(os.getpid())).write_text(os.getcwd())

    def one():
        note()
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(90)"],
            start_new_session=True).pid
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                note()
                time.sleep(90)
            os._exit(0)
        while len(list(notes.iterdir())) < 2:
            time.sleep(0.01)
        return 1
    """
    assert workshop.grade(workshop.lab(ONE), text).passed
    notes = list(tmp_path.iterdir())
    pids = [int(note.name) for note in notes]
    assert len(pids) == 2
    deadline = time.monotonic() + 5
    while not all(gone(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert all(gone(pid) for pid in pids)
    sleepers = [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if "import time; time.sleep(90)" in (process.info["cmdline"] or [])
    ]
    assert not sleepers
    assert not [note for note in notes if Path(note.read_text(encoding="utf-8")).exists()]


# Replaying


SEEDED = """
@todo("90.1")
@pytest.mark.parametrize("case", [1, 2])
def test_guess(candidate, draw, case):
    x, n = draw.latents(2, 2), draw.integer(0, 10**9)
    assert_matches(candidate.guess(x, n), library=lambda: x + n, truth=lambda: x.double() + n)
"""
GUESS = "def guess(x, n):\n    print(n)\n    return x * 3\n"


def test_a_seed_replays_a_grade_exactly(workshop: Any) -> None:
    lab = workshop.lab(SEEDED)
    path = workshop.submission(GUESS)
    first = workshop.grade(lab, path, seed=11)
    again = workshop.grade(lab, path, seed=11)
    other = workshop.grade(lab, path, seed=12)
    assert replace(first, seconds=0.0) == replace(again, seconds=0.0)
    assert checks_of(first) != checks_of(other)


def test_without_a_seed_every_grade_has_fresh_inputs(workshop: Any) -> None:
    lab = workshop.lab(SEEDED)
    path = workshop.submission(GUESS)
    first, second = workshop.grade(lab, path), workshop.grade(lab, path)
    assert first.seed != second.seed
    assert checks_of(first)["test_guess"].detail != checks_of(second)["test_guess"].detail


def test_a_candidate_remembers_nothing_of_an_earlier_grade(workshop: Any) -> None:
    text = """
    import torch

    def one():
        torch.before = getattr(torch, "before", 0) + 1
        return torch.before
    """
    lab = workshop.lab(ONE)
    assert workshop.grade(lab, text).passed
    assert workshop.grade(lab, text).passed


def test_a_misconception_that_returns_no_tuple_is_named(workshop: Any) -> None:
    suite = """
    @todo("90.1")
    def test_both(candidate, draw):
        \"\"\"Both ends are given.\"\"\"
        x = draw.latents(2, 3)
        low, high = unpack(candidate.ends(x), "low", "high")
        assert_property(low, equals=lambda: x.min(), what="low")
        assert_property(high, equals=lambda: x.max(), what="high")
    """
    both = "x.min(), x.max()"
    wrong = {"low-only": (both, "x.min()"), "high-only": (both, "x.max()")}
    lab = workshop.lab(suite, solution=f"def ends(x):\n    return {both}\n", wrong=wrong)
    report = workshop.grade(lab, "def ends(x):\n    return x.max()\n")
    assert report.todos[0].checks[0].misconception == "high-only"
    other = workshop.grade(lab, "def ends(x):\n    return x.mean()\n")
    assert other.todos[0].checks[0].misconception is None


def test_a_misconception_is_named_where_a_check_calls_other_names_too(workshop: Any) -> None:
    suite = """
    @todo("90.1")
    def test_twice(candidate, draw):
        x = draw.latents(3)
        box = candidate.wrapped(x)
        answer = candidate.doubled(box).inside()
        assert_matches(answer, library=lambda: 2 * x, truth=lambda: 2 * x.double())
    """
    solution = """
    class Box:
        def __init__(self, x):
            self.x = x
        def inside(self):
            return self.x
    def wrapped(x):
        return Box(x)
    def doubled(box):
        return Box(2 * box.x)
    """
    lab = workshop.lab(suite, solution=solution, wrong={"tripled": ("2 *", "3 *")})
    text = """
class Wrapped:
    def __init__(self, content): self.content = content
    def inside(self): return self.content
def wrapped(x): return Wrapped(x)
def doubled(box): return Wrapped(box.content * FACTOR)
"""
    assert workshop.grade(lab, "FACTOR = 2\n" + text).passed
    check = checks_of(workshop.grade(lab, "FACTOR = 3\n" + text))["test_twice"]
    assert check.misconception == "tripled"
    assert checks_of(workshop.grade(lab, "FACTOR = 4\n" + text))["test_twice"].misconception is None


TRYING = """
from pathlib import Path
def one():
    return 1
"""


@dataclass
class Search:
    """A search for names, and which misconceptions it has tried."""

    names: Names
    tried: Path

    def find(self, check_name: str, answer: Any) -> tuple[str | None, list[str]]:
        """The name found for this wrong answer to `one`, and the names tried for it."""
        self.tried.write_text("", encoding="ascii")
        failure, trial = MismatchError("not one", answer=answer), Trial(compared=1)

        def check(stand_in: Any) -> None:
            assert_equals(stand_in.one(), value=1)

        named = self.names.find("90.1", check_name, trial, failure, check)
        return named.name if named else None, self.tried.read_text(encoding="ascii").split()


@pytest.fixture
def search(workshop: Any, tmp_path: Path) -> Search:
    tried = tmp_path / "tried"

    def telling(name: str, answer: int) -> tuple[str, str]:
        told = f"with Path({str(tried)!r}).open('a') as file:\n    file.write('{name} ')"
        return "return 1", f"{told}\nreturn {answer}"

    wrong = {"two": telling("two", 2), "three": telling("three", 3)}
    return Search(Names(workshop.lab(ONE, solution=TRYING, wrong=wrong)), tried)


def test_no_name_is_looked_for_when_the_time_for_names_is_over(search: Search) -> None:
    assert search.find("test_one", 2) == ("two", ["two"])
    most, most_of_all = NAMING_SECONDS["full"]
    search.names.seconds["90.1"] = most + 1
    assert search.find("test_one", 2) == (None, [])
    search.names.seconds["90.1"] = 0.0
    assert search.find("test_other", 2) == ("two", ["two"])
    search.names.seconds["90.2"] = most_of_all + 1
    assert search.find("test_one", 2) == (None, [])


def test_the_time_for_names_is_counted(search: Search) -> None:
    assert search.names.seconds["90.1"] == 0
    search.find("test_one", 2)
    assert search.names.seconds["90.1"] > 0


def test_what_gave_another_answer_is_not_tried_again_in_the_same_check(search: Search) -> None:
    assert search.find("test_one", 4) == (None, ["two", "three"])
    assert search.find("test_one", 2) == (None, [])
    assert search.find("test_other", 2) == ("two", ["two"])


def test_what_was_named_in_another_check_is_tried_first(search: Search) -> None:
    assert search.find("test_one", 3) == ("three", ["two", "three"])
    assert search.find("test_other", 3) == ("three", ["three"])


@pytest.mark.parametrize(
    ("text", "tried"),
    [
        ("def one():\n    return 3\n", True),
        ("", False),
        ("one = 3\n", False),
        ("def one(x):\n    return 3\n", False),
    ],
    ids=["wrong", "missing", "not a function", "another parameter"],
)
def test_no_name_is_looked_for_where_nothing_was_called(
    workshop: Any, tmp_path: Path, text: str, tried: bool
) -> None:
    seen = tmp_path / "seen"
    wrong = {"two": ("return 1", f"Path({str(seen)!r}).touch()\nreturn 2")}
    lab = workshop.lab(ONE, solution=TRYING, wrong=wrong)
    assert not workshop.grade(lab, text).passed
    assert seen.exists() is tried


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is missing `one`"),
        ("one = 3\n", "`one` is not a function"),
        ("def one(x):\n    return 1\n", "cannot be called with 0 arguments"),
        ("from functools import partial\none = partial(int, [])\n", "raised TypeError: int() arg"),
        (
            "from functools import partial\none = partial(getattr, 3, 'x')\n",
            "AttributeError: 'int'",
        ),
        (
            "one = type('One', (), {'__call__': lambda self: self.x})()\n",
            "AttributeError on line 1",
        ),
    ],
    ids=["missing", "a number", "one parameter more", "type error", "attribute error", "object"],
)
def test_what_cannot_be_called_is_told_from_what_raises(
    workshop: Any, text: str, says: str
) -> None:
    """Also where the exception comes out of a library and crosses no line of the learner's."""
    check = checks_of(workshop.grade(workshop.lab(ONE), text))["test_one"]
    assert says in check.message


def test_a_misconception_is_named_only_when_its_answer_is_the_learners(workshop: Any) -> None:
    suite = """
    @todo("90.1")
    def test_double(candidate, draw):
        x = draw.latents(3)
        assert_matches(candidate.double(x), library=lambda: 2 * x, truth=lambda: 2 * x.double())
    """
    wrong = """
- todo: "90.1"
  name: squared
  says: >-
    You squared it.
    Doubling adds it to itself.
  reads: "#square"
  replace: 2 * x
  by: x * x
"""
    lab = workshop.lab(suite, solution="def double(x):\n    return 2 * x\n", wrong=wrong)
    named = checks_of(workshop.grade(lab, "def double(x): return x ** 2\n"))["test_double"]
    assert named.misconception == "squared"
    assert named.detail is not None
    assert named.detail.explanation == "You squared it. Doubling adds it to itself."
    assert named.detail.reads == "handbook/probe.md#square"
    other = checks_of(workshop.grade(lab, "def double(x): return x * 3\n"))["test_double"]
    assert other.misconception is None
    assert other.detail is not None
    assert other.detail.reads == "handbook/probe.md#square"  # what this todo's mistakes read


# A suite that is broken is the grader's fault, and earns nobody a point


@dataclass(frozen=True)
class Broken:
    """A suite with a fault; `says` is part of the grader error."""

    suite: str
    says: str
    todos: tuple[str, ...] = ("90.1",)


BROKEN = {
    "skips in a check": Broken(
        '@todo("90.1")\ndef test_one(candidate):\n    pytest.skip("later")\n', "skip"
    ),
    "skips by a mark": Broken(
        '@todo("90.1")\n@pytest.mark.skip\ndef test_one(candidate):\n    pass\n', "did not report"
    ),
    "skips the whole file": Broken('pytest.skip("all", allow_module_level=True)\n', "no check"),
    "fails by pytest.fail": Broken(
        '@todo("90.1")\ndef test_one(candidate):\n    pytest.fail("no")\n', "did not report"
    ),
    "compares nothing": Broken(
        '@todo("90.1")\ndef test_one(candidate):\n    candidate.one()\n', "compared nothing"
    ),
    "has no check for a todo": Broken(ONE, "todo 90.2 of", ("90.1", "90.2")),
    "cannot be imported": Broken("import nothing_of_this_name\n", "cannot be loaded"),
    "has a syntax error": Broken("def test_one(:\n", "cannot be loaded"),
    "checks a todo of another lab": Broken(
        ONE + '\n@todo("3.1")\ndef test_two(candidate):\n    pass\n', "names no todo"
    ),
    "forgets a mark": Broken(ONE + "\ndef test_two(candidate):\n    pass\n", "names no todo"),
    "asks for an unknown fixture": Broken(
        '@todo("90.1")\ndef test_one(candidate, nothing):\n    pass\n', "did not report"
    ),
    "raises before it calls": Broken(
        '@todo("90.1")\ndef test_one(candidate):\n    1 / 0\n', "ZeroDivisionError"
    ),
    "has a library that raises": Broken(
        '@todo("90.1")\ndef test_one(candidate):\n'
        "    assert_equals(candidate.one(), library=lambda: 1 / 0)\n",
        "ZeroDivisionError",
    ),
    "has a truth that raises": Broken(
        '@todo("90.1")\ndef test_one(candidate):\n'
        "    assert_matches(candidate.one(), library=lambda: 1.0, truth=lambda: 1 / 0)\n",
        "ZeroDivisionError",
    ),
    "has a library that disagrees with its formula": Broken(
        '@todo("90.1")\ndef test_one(candidate):\n'
        "    assert_matches(candidate.one(), library=lambda: 1.0, truth=lambda: 1.1)\n",
        "disagree",
    ),
    "sends what cannot cross": Broken(
        '@todo("90.1")\ndef test_one(candidate):\n'
        "    assert_equals(candidate.given(1j), value=1)\n",
        "complex",
    ),
    "answers a callback with what cannot cross": Broken(
        '@todo("90.1")\ndef test_one(candidate):\n'
        "    assert_equals(candidate.called(lambda: 1j), value=1)\n",
        "complex",
    ),
    "finds its fault in a callback": Broken(
        '@todo("90.1")\ndef test_one(candidate):\n'
        "    def callback():\n"
        "        assert_matches(1.0, library=lambda: 1.0, truth=lambda: 1.1)\n"
        "        return 1\n"
        "    assert_equals(candidate.called(callback), value=1)\n",
        "disagree",
    ),
    "calls the candidate in a callback": Broken(
        '@todo("90.1")\ndef test_one(candidate):\n'
        "    assert_equals(candidate.called(lambda: candidate.one()), value=1)\n",
        "callback",
    ),
}
USED = {
    "a library": "assert_equals(1, library=lambda: candidate_answer[9], what='it')",
    "a truth": "assert_matches(1.0, library=lambda: 1.0, truth=lambda: candidate_answer.sum(7))",
    "a property": "assert_property(1.0, equals=lambda: candidate_answer.log(3))",
    "a library that then disagrees": (
        "assert_matches(1.0, library=lambda: 1.0, truth=lambda: 2.0 * len(candidate_answer))"
    ),
    "an argument that is one level too deep": "candidate.given([candidate_answer])",
    "arithmetic": "assert_equals(1, value=candidate_answer + 1)",
    "more memory than a check may take": (
        "assert_equals(1, library=lambda: torch.zeros(2**31 * len(candidate_answer)))"
    ),
    "an operation on what no right answer is as large as": (
        "torch.linalg.matrix_rank(candidate.large())"
    ),
}


@pytest.fixture(scope="module")
def used(workshop: Any) -> Report:
    checks = "".join(
        f"""
@todo("90.{number}")
def test_{number}(candidate):
    candidate_answer = candidate.deep()
    {line}
"""
        for number, line in enumerate(USED.values(), start=1)
    )
    lab = workshop.lab(checks, todos=[f"90.{n + 1}" for n in range(len(USED))])
    deep = "import torch\ndef large(): return torch.ones(700, 700)\n"
    deep += "def given(x): return 1\ndef deep():\n    x = 1\n"
    deep += "    for _ in range(31): x = [x]\n    return x\n"
    report: Report = workshop.grade(lab, deep)
    return report


def test_what_breaks_with_an_answer_in_reach_is_the_submissions_fault(used: Report) -> None:
    assert used.grader_error is None
    assert used.score == 0
    assert {todo.status for todo in used.todos} == {"failed"}
    memory, size = (checks_of(used)[f"test_{len(USED) - n}"].message for n in (1, 0))
    assert "allocate memory" in memory
    assert size == "returned 2.0 MB, far more than any right answer to what the check gave"


@pytest.mark.parametrize("device", ["'meta'", "torch.device('meta')"])
def test_a_lent_scheduler_is_put_on_no_other_device(workshop: Any, device: str) -> None:
    lab = find_lab("lab-04", find_labs())
    assert lab.solution is not None
    text = lab.solution.read_text(encoding="utf-8")
    line = "scheduler.set_timesteps(num_inference_steps"
    assert text.count(f"{line})") == 1
    text = text.replace(f"{line})", f"{line}, device={device})")
    report = workshop.grade(lab, text, todos=["4.5"], wishes=Wishes(stop="first failure"))
    assert (report.grader_error, report.score) == (None, 0)
    failed = [check for check in report.todos[0].checks if check.status == "error"]
    assert " device " in failed[0].message


def test_computing_with_an_answer_ends_and_the_run_goes_on(workshop: Any) -> None:
    suite = """
    @todo("90.1")
    def test_long(candidate):
        answer = candidate.one()
        while answer:
            pass

    @todo("90.2")
    def test_own_work(candidate):
        assert_equals(1, value=1)
    """
    limits = {"call_seconds": 1.0, "lab_seconds": 1.0}
    lab = workshop.lab(suite, todos=["90.1", "90.2"], limits=limits)
    started = time.monotonic()
    report = workshop.grade(lab, "def one(): return 1\n")
    assert time.monotonic() - started < 12
    assert (report.grader_error, report.score) == (None, 2)
    long = checks_of(report)["test_long"]
    assert long.status == "timeout"
    assert "computing with what your code answered took longer" in long.message


ANSWERS = """
def one(): return 1
def given(x): return 1
def called(callback):
    try:
        return callback()
    except Exception:
        return 1
"""


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_suite_is_at_fault_that(workshop: Any, broken: Broken) -> None:
    report = workshop.grade(workshop.lab(broken.suite, todos=broken.todos), ANSWERS)
    assert not report.passed
    assert report.score == 0
    assert report.grader_error is not None
    assert broken.says in report.grader_error


def test_one_examiner_grades_two_labs_whose_suites_have_one_file_name(workshop: Any) -> None:
    first = workshop.lab(ONE, suite_file="test_same.py")
    second = workshop.lab(ONE.replace("value=1", "value=2"), suite_file="test_same.py")
    one, two = "def one(): return 1\n", "def one(): return 2\n"
    assert workshop.grade(first, one).passed
    assert workshop.grade(second, two).passed
    assert not workshop.grade(second, one).passed


def test_a_run_is_void_when_a_check_that_nobody_can_pass_is_passed(
    workshop: Any, light_diffusers: Path
) -> None:
    code = (
        "from infralens.examiner.compare import asserts\n"
        "from infralens.examiner.service import serve\n"
        "asserts._judge = lambda *given: None\n"
        "serve.main()\n"
    )
    suite = """
    @todo("90.1")
    def test_one(candidate):
        assert_matches(candidate.one(), library=lambda: 1.0, truth=lambda: 1.0)
    """
    with examiner(program=("-c", code)) as blind:
        report = grade(
            workshop.lab(suite), workshop.submission("def one(): return 99.0\n"), using=blind
        )
    assert report.grader_error is not None
    assert "nobody can pass" in report.grader_error
    assert (report.score, report.passed) == (0, False)


REMEMBERED = """
known = {}

def scale(x, factor):
    key = x.shape
    if key not in known:
        known[key] = x * factor
    return known[key]
"""


def test_an_answer_that_was_remembered_is_wrong_the_second_time(workshop: Any) -> None:
    suite = """
    @todo("90.1")
    def test_scaled(candidate, draw):
        \"\"\"It is scaled.\"\"\"
        x, factor = draw.latents(2, 3), draw.uniform(2, 3)
        answer = candidate.scale(x, factor)
        assert_matches(answer, library=lambda: x * factor, truth=lambda: x.double() * factor)
    """
    lab = workshop.lab(suite)
    report = workshop.grade(lab, REMEMBERED, isolation="process")
    check = report.todos[0].checks[0]
    assert report.score == 0
    assert check.message.endswith("though the first time it was right")
    assert check.detail is not None
    assert check.detail.round == 1
    assert check.detail.region is not None
    assert check.detail.region.shape == (2, 3)
    right = "def scale(x, factor):\n    return factor * x\n"
    assert workshop.grade(lab, right, isolation="process").score == 2


def test_the_users_own_pytest_settings_change_no_grade(
    workshop: Any, monkeypatch: pytest.MonkeyPatch, light_diffusers: Path
) -> None:
    """Each of them alone would void it."""
    suite = """
    @todo("90.1")
    def test_doubled(candidate, draw):
        \"\"\"It is doubled.\"\"\"
        x = draw.latents(2, 3)
        assert_matches(candidate.double(x), library=lambda: x * 2, truth=lambda: x.double() * 2)
    """
    lab = workshop.lab(suite)
    path = workshop.submission("def double(x):\n    return x + x\n")
    monkeypatch.setenv("PYTEST_ADDOPTS", "--collect-only -k nothing")
    monkeypatch.setenv("PYTEST_PLUGINS", "no_such_plugin")
    report = grade(lab, path, isolation="process")
    assert report.grader_error is None
    assert report.score == 2


GIVEN = """
SOURCE = (
    'import torch\\n'
    'def module(weight):\\n'
    '    m = torch.nn.Linear(2, 1, bias=False)\\n'
    '    m.weight.data[:] = weight\\n'
    '    return {"linear": m, "none": None}\\n'
)

@todo("90.1")
def test_applied(candidate, draw):
    \"\"\"The module is applied.\"\"\"
    w, x = draw.tensor(1, 2), draw.tensor(3, 2)
    parts = given(candidate, SOURCE).module(w)
    assert parts["none"] is None
    answer = candidate.apply(parts, x)
    assert_matches(answer, library=lambda: x @ w.T, truth=lambda: x.double() @ w.double().T)
"""


def test_what_a_lab_gives_lives_beside_the_learners_code(workshop: Any) -> None:
    lab = workshop.lab(GIVEN)
    right = "def apply(parts, x):\n    return parts['linear'](x)\n"
    assert workshop.grade(lab, right, isolation="process").score == 2
    wrong = "def apply(parts, x):\n    return -parts['linear'](x)\n"
    report = workshop.grade(lab, wrong, isolation="process")
    assert report.score == 0
    assert "apply(" in (report.todos[0].checks[0].detail.call or "")


def test_what_a_lab_gives_and_the_learner_broke_earns_nothing(workshop: Any) -> None:
    text = "import torch\ndel torch.nn.Linear\ndef apply(parts, x):\n    return x\n"
    report = workshop.grade(workshop.lab(GIVEN), text, isolation="process")
    assert report.grader_error is None
    assert report.score == 0
    assert "failed beside it: AttributeError" in report.todos[0].checks[0].message


def test_modules_that_a_lab_names_are_loaded_before_its_time_begins(workshop: Any) -> None:
    """In both processes at once: what a check imports only when it needs it is waited for."""
    suite = """
    import sys

    @todo("90.1")
    def test_there(candidate, draw):
        \"\"\"It is there.\"\"\"
        assert_equals(candidate.there("wave"), value="wave" in sys.modules)
        assert_equals(candidate.there("chunk"), value=False)
    """
    text = "import sys\ndef there(name):\n    return name in sys.modules\n"
    assert workshop.grade(workshop.lab(suite, loaded=["wave"]), text).score == 2
    assert workshop.grade(workshop.lab(suite), text).score == 0


def test_a_whole_step_result_in_place_of_its_tensor_is_told_and_named(workshop: Any) -> None:
    suite = """
    def denoise(sample, t):
        return sample * 0.5

    class Scheduler:
        def step(self, output, t, sample):
            return Namespace({"prev_sample": sample - output})

    @todo("90.1")
    def test_run(candidate, draw):
        \"\"\"Two turns are made.\"\"\"
        x = draw.latents(2, 3)
        answer = candidate.loop(denoise, remote(Scheduler(), methods=["step"]), x)
        assert_property(answer, equals=lambda: x / 4, what="the latents")
    """
    loop = (
        "def loop(d, s, x):\n"
        "    for t in (1, 0):\n"
        "        x = s.step(d(x, t), t, x){}\n"
        "    return x\n"
    )
    wrong = {"whole-result": (").prev_sample", ")")}
    lab = workshop.lab(suite, solution=loop.format(".prev_sample"), wrong=wrong)
    right = workshop.grade(lab, loop.format(".prev_sample"), isolation="process")
    assert right.score == 2
    check = workshop.grade(lab, loop.format(""), isolation="process").todos[0].checks[0]
    assert "holds prev_sample, where a tensor belongs; take .prev_sample of it" in check.message
    assert check.misconception == "whole-result"
