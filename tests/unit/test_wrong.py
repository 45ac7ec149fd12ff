"""Wrong answers are edits of the solution: read with suspicion, applied to the letter."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infralens.authoring import judging_wrong
from infralens.authoring.judging_wrong import judge_wrong
from infralens.grading import Wishes, rehearse
from infralens.labs import Lab, Limits, find_lab, find_labs
from infralens.wrong import BadWrongAnswerError, Edit, EditError, edited, wrong_answers

TEXT = """def f(x):
    if x:
        y = x + 1
        z = y + 1

        return z
    return x + 1
"""
ENTRY = """
- todo: "90.1"
  name: two
  replace: return 1
  by: return 2
"""
NAMED = """
- todo: "90.1"
  name: three
  says: >-
    It is three.
    It should be one.
  reads: "#more"
  edits:
  - replace: return 1
    by: return 2
  - {replace: return 2, by: return 3}
"""


@pytest.mark.parametrize(
    ("replace", "by", "old", "new"),
    [
        ("x:", "not x:", "if x:", "if not x:"),
        ("y = x + 1", "y = x\ny += 1", "y = x + 1", "y = x\n        y += 1"),
        ("y = x + 1\nz = y + 1", "z = x + 2", "y = x + 1\n        z = y + 1", "z = x + 2"),
        ("y = x + 1\nz", "z", "y = x + 1\n        z", "z"),
        ("z = y + 1\n\nreturn z", "return y + 1", "z = y + 1\n\n        return z", "return y + 1"),
        ("y = x + 1", "", "        y = x + 1\n", ""),
        ("y = x + 1\nz = y + 1", "", "        y = x + 1\n        z = y + 1\n", ""),
        (" + 1\nz", "\nz", " + 1\n        z", "\n        z"),
        ("x:\n    y = x", "x:\n    y = 2", "x:\n        y = x", "x:\n        y = 2"),
    ],
    ids=[
        *("part of a line", "a line more", "two lines for one", "a part of the last line"),
        *("over an empty line", "a line goes", "two lines go", "the end of a line goes"),
        "deeper lines",
    ],
)
def test_an_edit_replaces_what_stands_there_once(replace: str, by: str, old: str, new: str) -> None:
    assert TEXT.count(old) == 1
    assert edited(TEXT, Edit(replace, by)) == TEXT.replace(old, new)


@pytest.mark.parametrize(
    ("replace", "says"),
    [
        ("y = x + 2", "'y = x + 2' stands nowhere in the solution; line 3 is nearest: quote 'y = "),
        ("y = x + 1\n    z = y + 1", r"line 3 is nearest: quote 'y = x + 1\nz = y + 1'"),
        ("return z\nreturn x", r"line 6 is nearest: quote 'if x:\n    y = x + 1\n    z = y + 1\n"),
        ("€€€€€€€€€€€€", "nor anything like it"),
        ("x + 1", "'x + 1' stands on lines 3 and 7; quote more of the one that is meant"),
    ],
)
def test_an_edit_that_does_not_fit_says_what_to_quote(replace: str, says: str) -> None:
    with pytest.raises(EditError, match=re.escape(says)):
        edited(TEXT, Edit(replace, "0"))


def test_what_is_said_to_quote_fits() -> None:
    with pytest.raises(EditError) as told:
        edited(TEXT, Edit("return z\nreturn x + 1", "0"))
    quotation = str(told.value).partition("quote '")[2].removesuffix("'").replace("\\n", "\n")
    assert edited(TEXT, Edit(quotation, "return 0")) == "def f(x):\n    return 0\n"


def test_wrong_answers_are_read_in_order(workshop: Any) -> None:
    two, three = wrong_answers(workshop.lab("", wrong=ENTRY + NAMED))
    assert (two.name, two.says, two.reads) == ("two", None, None)
    assert two.edited("    return 1\n") == "    return 2\n"
    assert three.says == "It is three. It should be one."
    assert three.reads == "handbook/probe.md#more"
    assert three.edited("return 1\n") == "return 3\n"
    assert wrong_answers(workshop.lab("")) == ()


def test_a_file_that_was_changed_is_read_again(workshop: Any) -> None:
    lab = workshop.lab("", wrong=ENTRY)
    assert len(wrong_answers(lab)) == 1
    (lab.suite / "wrong.yaml").write_text(ENTRY + NAMED, encoding="utf-8")
    assert len(wrong_answers(lab)) == 2


def test_an_edit_that_does_not_fit_names_its_entry(workshop: Any) -> None:
    (two,) = wrong_answers(workshop.lab("", wrong=ENTRY))
    with pytest.raises(EditError, match=r"wrong\.yaml, 90\.1 two: 'return 1' stands nowhere"):
        two.edited("pass\n")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("by: return 2", "by: True", "entry 1, 90.1 two: by must be string, not True"),
        ("by: return 2", "by: 2", "entry 1, 90.1 two: by must be string, not 2"),
        ("by: return 2", "by: return 1", "90.1 two replaces something by itself"),
        ("  by: return 2\n", "", "90.1 two: missing dependency by for replace"),
        ("  replace: return 1\n  by: return 2\n", "", "90.1 two needs either"),
        ("name: two", "nam: two", "entry 1, 90.1 None: "),
        ("two", "Two", "entry 1, 90.1 Two: name must match pattern"),
        ('"90.1"', "90.1", "entry 1, 90.1 two: todo must be string, not 90.1"),
        ("  by", "  says: It is two.\n  by", "90.1 two: missing dependency reads for says"),
        ("  by", '  says: Two.\n  reads: "page#x"\n  by', "reads must match pattern"),
        ("  by", "  crosses: true\n  says: Two.\n  reads: '#x'\n  by", "90.1 two crosses, so it"),
        (ENTRY, ENTRY + ENTRY, "90.1 two stands there twice"),
        (ENTRY, "two", "it must be array"),
        (ENTRY, "- two", "entry 1: must be object"),
        (ENTRY, "[", "cannot be used: "),
    ],
)
def test_a_file_that_does_not_say_what_it_must_is_refused(
    workshop: Any, old: str, new: str, says: str
) -> None:
    assert ENTRY.count(old) == 1
    lab = workshop.lab("", wrong=ENTRY.replace(old, new))
    with pytest.raises(BadWrongAnswerError, match=re.escape(says)):
        wrong_answers(lab)


SUITE = """
@todo("90.1")
def test_one(candidate, draw):
    assert_equals(candidate.Box(candidate.one()).value, value=1)
"""
SOLUTION = """
from __future__ import annotations
from dataclasses import dataclass

@dataclass
class Box:
    value: int

def one():
    return 1
"""


def named(workshop: Any, lab: Lab, text: str) -> tuple[str | None, str | None, str | None]:
    report = workshop.grade(lab, text, isolation="process")
    assert report.todos[0].checks, report.grader_error
    check = report.todos[0].checks[0]
    return check.misconception, check.detail and check.detail.reads, report.grader_error


def with_solution(workshop: Any, text: str) -> Lab:
    lab: Lab = workshop.lab(SUITE, solution=SOLUTION, wrong=text)
    return lab


def test_an_edit_names_the_learners_mistake_on_all_of_the_learners_names(workshop: Any) -> None:
    lab = with_solution(workshop, ENTRY + NAMED)
    assert named(workshop, lab, SOLUTION.replace("return 1", "return 3")) == (
        "three",
        "handbook/probe.md#more",
        None,
    )
    unnamed = SOLUTION.replace("return 1", "return 2")  # an entry that says nothing
    assert named(workshop, lab, unnamed) == (None, "handbook/probe.md#more", None)


def test_where_no_solution_lies_nothing_is_named_and_the_section_is_known(workshop: Any) -> None:
    lab = with_solution(workshop, NAMED)
    assert lab.solution is not None
    lab.solution.unlink()
    wrong = SOLUTION.replace("return 1", "return 3")
    assert named(workshop, lab, wrong) == (None, "handbook/probe.md#more", None)


def test_an_edit_that_no_longer_fits_costs_no_grade(workshop: Any) -> None:
    lab = with_solution(workshop, NAMED.replace("return 1", "return 7"))
    wrong = SOLUTION.replace("return 1", "return 3")
    assert named(workshop, lab, wrong) == (None, "handbook/probe.md#more", None)


def test_a_file_that_cannot_be_used_voids_the_grade_with_its_reason(workshop: Any) -> None:
    lab = with_solution(workshop, "two")
    _, _, fault = named(workshop, lab, SOLUTION.replace("return 1", "return 3"))
    assert fault is not None
    assert "wrong.yaml cannot be used: it must be array" in fault


def test_the_examiner_runs_a_wrong_answer_itself_and_names_it(workshop: Any) -> None:
    lab = with_solution(workshop, ENTRY + NAMED)
    using = workshop.warm
    assert rehearse(lab, None, ["90.1"], using=using, seed=1).passed
    two = rehearse(lab, "two", ["90.1"], using=using, seed=1).todos[0]
    assert (two.status, two.score) == ("failed", 0)
    three = rehearse(lab, "three", ["90.1"], using=using, seed=1).todos[0].checks[0]
    assert three.misconception == "three"
    quick = Wishes(naming="none")
    again = rehearse(lab, "three", ["90.1"], using=using, seed=1, wishes=quick).todos[0].checks[0]
    assert (again.status, again.misconception) == ("failed", None)


def judged(workshop: Any, tmp_path: Path, by: str, **fields: Any) -> tuple[int, bool, str]:
    """The points and status of a wrong answer, and whether a process of its own had to tell."""
    lab = replace(with_solution(workshop, ENTRY.replace("return 2", by)), **fields)
    (wrong,) = wrong_answers(lab)
    path = tmp_path / "submission.py"
    report = judge_wrong(lab, wrong, path, workshop.warm, seed=1)
    assert report.grader_error is None
    return report.score, path.exists(), report.todos[0].checks[0].status


def test_what_the_examiner_finds_wrong_is_wrong(workshop: Any, tmp_path: Path) -> None:
    assert judged(workshop, tmp_path, "return 2") == (0, False, "failed")
    assert judged(workshop, tmp_path, "raise ValueError") == (0, False, "error")
    assert judged(workshop, tmp_path, "return None + 1") == (0, False, "error")


def test_what_the_examiner_cannot_tell_is_graded(
    workshop: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report_of: Any
) -> None:
    assert judged(workshop, tmp_path, "return 1 * 1") == (2, True, "passed")
    void = report_of(("90.1", 2, "error", ()), fault="the examiner ended")
    monkeypatch.setattr(judging_wrong, "rehearse", lambda *_, **__: void)
    assert judged(workshop, tmp_path, "import os; os._exit(0)") == (0, True, "error")


def test_what_crosses_is_not_run_by_the_examiner(workshop: Any, tmp_path: Path) -> None:
    by = "return 2\n  crosses: true"
    assert judged(workshop, tmp_path, by) == (0, True, "failed")


def test_a_wrong_answer_that_never_ends_is_stopped(workshop: Any, tmp_path: Path) -> None:
    limits = Limits(call_seconds=0.5)
    slow = "'while True: pass'"
    lab = with_solution(workshop, ENTRY.replace("return 2", slow))
    text = (lab.suite / "lab.yaml").read_text(encoding="utf-8")
    (lab.suite / "lab.yaml").write_text(text + "limits: {call_seconds: 0.5}\n", encoding="utf-8")
    (wrong,) = wrong_answers(lab)
    path = tmp_path / "submission.py"
    report = judge_wrong(replace(lab, limits=limits), wrong, path, workshop.warm, seed=1)
    assert report.todos[0].checks[0].status == "timeout"
    assert not path.exists()


NATURAL = {  # what learners and other projects wrote, by todo
    "diffusers/lab-02": {
        "2.1": ("noise-weight-without-root",),
        "2.3": ("deviation-for-variance",),
        "2.4": ("neighbour-for-the-previous-step",),
    },
    "diffusers/lab-03": {
        "3.1": ("trailing-by-whole-strides",),
        "3.2": ("karras-down-to-zero",),
        "3.4": ("levels-exchanged",),
        "3.5": ("flow-timesteps-made-whole", "length-ignored"),
    },
    "diffusers/lab-04": {"4.5": ("step-from-scaled-latents", "loop-index-for-t")},
    "diffusers/lab-05": {"5.1": ("eight-hard-coded", "a-halving-in-every-block")},
    "diffusers/lab-06": {
        "6.5": (
            "step-from-the-scaled-latents",
            "turn-number-for-the-timestep",
            "generator-not-passed-to-step",
        )
    },
    "diffusers/lab-07": {
        "7.1": ("timestep-in-half-precision", "frequencies-from-one"),
        "7.2": ("heads-interleaved",),
    },
    "diffusers/lab-08": {
        "8.1": ("alpha-zero-taken-as-missing",),
        "8.6": ("every-key-must-hold-lora", "alpha-looked-for-anywhere"),
    },
    "diffusers/lab-09": {"9.4": ("window-in-whole-turns", "turns-judged-by-their-end")},
    "diffusers/lab-10": {
        "10.2": ("logarithms-added",),
        "10.3": ("last-tile-moved-back", "stops-when-covered"),
        "10.4": ("batch-axis-lost",),
    },
    "diffsynth/lab-04": {
        "4.1": ("denoiser-asked-with-the-first-state", "generator-not-passed"),
        "4.2": ("order-of-add-noise-in-flow",),
    },
}


@pytest.mark.parametrize("lab", NATURAL)
def test_mistakes_that_come_naturally_have_a_name(lab: str) -> None:
    """That each is said of its answer, `check` proves."""
    known = wrong_answers(find_lab(lab, find_labs()))
    for todo, names in NATURAL[lab].items():
        assert set(names) <= {one.name for one in known if one.todo == todo and one.says}
