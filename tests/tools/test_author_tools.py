"""check, wrong and new, as an author uses them: a lab of one's own from nothing to graded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from infralens import grading
from infralens.authoring import Proof, current_stub, prove
from infralens.authoring.texts import prove_texts
from infralens.cli import main
from infralens.grading import Examiner, examiner, grade
from infralens.labs import Lab, find_lab, find_labs

pytestmark = pytest.mark.xdist_group("author tools")  # one warm examiner for all
CHECK = '''"""Halving."""

from infralens.examiner import assert_matches, todo


@todo("7.1")
def test_every_number_is_halved(candidate, draw):
    """half divides every number by two."""
    sample = draw.latents(3, 4, 8, 12)
    answer = candidate.half(sample)
    assert_matches(answer, library=lambda: sample / 2, truth=lambda: sample.double() / 2)
'''
WRONG = """
- todo: "7.1"
  name: doubled
  says: The numbers were doubled. Half of a number is that number divided by two.
  reads: "#halves"
  replace: sample * 0.5
  by: sample * 2
"""
SOLUTION = '''"""Halving."""


def half(sample):
    """7.1 · Half of every number.

    >>> half(3.0)
    1.5
    """
    ### BEGIN SOLUTION
    return sample * 0.5
    ### END SOLUTION
'''
QUIZ = '''"""Halving."""

from infralens.quiz import question


@question("What is half of 10?")
def ten() -> int:
    """Ten divided by two."""
    return 5


@question("What is half of 12?")
def twelve() -> int:
    """Twelve divided by two."""
    return 6


@question("What is half of 14?")
def fourteen() -> int:
    """Fourteen divided by two."""
    return 7
'''
PAGE = """# Halving

1 point, or rather 1 points.

```python
assert torch.tensor(3.0) / 2 == 1.5
```

## Checkpoints

1. What is half of 10?
2. What is half of 12?
3. What is half of 14?
"""
YAML = """
title: Halving
goal: Know what a half is.
file: halving.py
reading: handbook/halves.md
todos:
  - id: "7.1"
    title: Halves
    points: 1
    names: [half]
    hints: [look, think, write]
"""


def run(*arguments: str) -> Result:
    return CliRunner(catch_exceptions=False).invoke(main, list(arguments))


def finished(folder: Path) -> Lab:
    """The lab that `new` began, with everything that was left to write in it."""
    suite = folder / "suites" / "mine" / "lab_07_halving"
    (folder / "exercises" / "handbook").mkdir(exist_ok=True)
    pages = {
        suite / "lab.yaml": YAML,
        suite / "test_halving.py": CHECK,
        suite / "wrong.yaml": WRONG,
        suite / "quiz.py": QUIZ,
        folder / "solutions" / "mine" / "lab-07-halving" / "halving.py": SOLUTION,
        folder / "exercises" / "mine" / "lab-07-halving" / "README.md": PAGE,
        folder / "exercises" / "handbook" / "halves.md": "# Halves\n",
    }
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")
    lab = find_lab("mine/lab-07", find_labs([folder]))
    lab.stub.write_text(current_stub(lab), encoding="utf-8")
    return lab


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    result = run("new", "mine", "lab-07", "Halving", "--into", str(tmp_path))
    assert result.exit_code == 0, result.output
    return tmp_path


@pytest.fixture(scope="module")
def warm(light_folder: Path) -> Iterator[Examiner]:
    """One examiner for the labs that are made here; they ask diffusers for nothing."""
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", str(light_folder))
            warm = stack.enter_context(examiner(serve=True))
        yield warm


def test_a_new_lab_is_found_and_check_lists_what_is_left(begun: Path) -> None:
    result = run("--labs", str(begun), "check", "--lab", "mine/lab-07", "--seeds", "1")
    assert result.exit_code == 1
    left = [line for line in result.output.splitlines() if "is left to write" in line]
    assert len(left) >= 10
    for name in ("README.md", "halving.py", "test_halving.py", "lab.yaml", "wrong.yaml", "quiz.py"):
        assert any(f": {name} line " in line for line in left), name
    assert all(line.startswith("mine/lab-07: ") for line in left)


def test_nothing_is_graded_where_the_texts_have_faults(begun: Path) -> None:
    lab = finished(begun)
    changed(lab.page, "== 1.5", "== 2.5")
    words = ("--labs", str(begun), "check", "--lab", "mine/lab-07", "--seeds", "1")
    result = run(*words)
    assert result.exit_code == 1
    assert "code block 1 raises AssertionError" in result.output
    assert "mine/lab-07: nothing was graded: mend its texts first" in result.output
    proof = prove(lab, seeds=1)
    assert (proof.grades, proof.texts_alone) == (0, True)


def test_a_finished_lab_outside_the_package_is_proven_and_grades(
    begun: Path, warm: Examiner
) -> None:
    lab = finished(begun)
    twin = WRONG.partition("  says")[0].replace("doubled", "twice") + WRONG[WRONG.index("  rep") :]
    (lab.suite / "wrong.yaml").write_text(WRONG + twin, encoding="utf-8")
    proof = prove(lab, seeds=2, nameless=True, using=warm)
    assert [fault.sentence for fault in proof.faults] == []
    (confusion,) = proof.confusions
    assert confusion.sentence.startswith("7.1 twice is named doubled everywhere: The numbers were")
    assert lab.solution is not None
    assert grade(lab, lab.solution, using=warm).passed
    assert grade(lab, lab.stub, using=warm).todos[0].status == "not_started"


def changed(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8", errors="surrogateescape")


def test_check_says_what_is_wrong_with_the_texts_of_a_lab(begun: Path) -> None:
    lab = finished(begun)
    assert lab.solution is not None
    faults = {
        "the stub is not what the solution makes": (lab.stub, "raise", "pass  # raise"),
        "has no such heading": (lab.suite / "wrong.yaml", "#halves", "#thirds"),
        "code block 1 raises AssertionError": (lab.page, "== 1.5", "== 2.5"),
        "does not give what it says": (lab.solution, "    1.5", "    2.5"),
        "is not under ## Checkpoints": (lab.page, "half of 12?", "half of 13?"),
        "it needs 3": (lab.suite / "lab.yaml", "[look, think, write]", "[look]"),
        "page: does not say that `diffusers` cannot be imported": (
            lab.suite / "lab.yaml",
            "todos:",
            "masked: [diffusers]\ntodos:",
        ),
        "masked is safetensors, without which no submission can start": (
            lab.suite / "lab.yaml",
            "todos:",
            "masked: [safetensors]\ntodos:",
        ),
        "code block 1 asserts what cannot fail: assert torch.tensor(3.0) / 2 == 1.5 or True": (
            lab.page,
            "== 1.5",
            "== 1.5 or True",
        ),
        "loaded is nothing_of_this_name, which no installed module": (
            lab.suite / "lab.yaml",
            "todos:",
            "loaded: [nothing_of_this_name]\ntodos:",
        ),
        "is for todo 7.2, which lab.yaml does not list": (
            lab.suite / "wrong.yaml",
            'todo: "7.1"',
            'todo: "7.2"',
        ),
        "7.1 doubled: 'sample * 0.6' stands nowhere in the solution; line 11 is nearest: quote "
        "'return sample * 0.5'": (lab.suite / "wrong.yaml", "sample * 0.5", "sample * 0.6"),
        "7.1 doubled: line 11 is no Python then": (lab.suite / "wrong.yaml", "sample * 2", "(2"),
        "line 11: answer in a closure of truth, before an assertion has passed it": (
            lab.suite / "test_halving.py",
            "sample.double() / 2",
            "sample.double() / 2 + 0 * answer",
        ),
        "test_halving.py, line 11 is no Python": (lab.suite / "test_halving.py", "/ 2)", "/ 2))"),
        "the solution raises ZeroDivisionError": (lab.solution, "def half", "1 / 0\ndef half"),
        "quiz.py raises SystemExit: 0": (
            lab.suite / "quiz.py",
            "from",
            "raise SystemExit(0)\nfrom",
        ),
        "half of 10?' raises SystemExit: 0": (
            lab.suite / "quiz.py",
            "return 5",
            "raise SystemExit(0)",
        ),
        "code block 1 raises SystemExit: 0": (lab.page, "assert", "raise SystemExit(0)\nassert"),
        "halving.py line 11 holds a null byte": (lab.solution, "sample * 0.5", "sample\0"),
        "README.md line 3 is not UTF-8 text": (lab.page, "1 point,", "\udce9"),
        "a link to " + "x" * 100 + ", which": (lab.page, "1 point,", f"[a]({'x' * 5000})"),
        "the source of 7.1: ": (
            lab.suite / "lab.yaml",
            "[half]",
            "[half]\n    source: {name: torch.nothing_of_this_name, asks: Why?}",
        ),
        "doubled: by must be string, not True": (lab.suite / "wrong.yaml", "sample * 2", "yes"),
    }
    for sentence, (path, old, new) in faults.items():
        before = path.read_text(encoding="utf-8")
        changed(path, old, new)
        proof = Proof(find_lab(lab.id, find_labs([begun])))
        prove_texts(proof)
        path.write_text(before, encoding="utf-8")
        found = [fault.sentence for fault in proof.faults]
        assert any(sentence in fault for fault in found), (sentence, found)


def test_check_finds_a_line_of_an_answer_on_a_page_of_the_handbook(begun: Path) -> None:
    lab = finished(begun)
    assert lab.solution is not None
    changed(lab.solution, "return sample * 0.5", "return sample * 0.5 + 0 * sample")
    handbook = begun / "exercises" / "handbook" / "halves.md"
    handbook.write_text("# Halves\n\n    return sample * 0.5 + 0 * sample\n", encoding="utf-8")
    proof = Proof(lab)
    prove_texts(proof)
    told = "a line of an answer stands in handbook/halves.md: return sample * 0.5 + 0 * sample"
    assert [fault.sentence for fault in proof.faults] == [told]


@pytest.mark.minutes
def test_check_says_what_is_wrong_with_the_checks_of_a_lab(
    begun: Path, light_diffusers: Path
) -> None:
    """Each wrong answer has a fault of its own; the last spoils the grades after it."""
    lab = finished(begun)
    wrong = lab.suite / "wrong.yaml"
    answers = {
        "paid": "sample / 2",
        "unnamed": "sample * __import__('random').random()",
        "spoiling": "(setattr(type(sample), 'double', type(sample).half), sample * 2)[1]",
    }
    changed(lab.page, "== 1.5", "== 2.5")
    texts = [
        WRONG.replace("doubled", name).replace("sample * 2", answer)
        for name, answer in answers.items()
    ]
    wrong.write_text("".join(texts), encoding="utf-8")
    found = [
        fault.sentence
        for fault in prove(find_lab(lab.id, find_labs([begun])), seeds=1, despite_texts=True).faults
    ]
    for sentence in (
        "code block 1 raises AssertionError",
        "misconception paid passes todo 7.1",
        "misconception unnamed is not named",
        "after the misconceptions the solution fails",
    ):
        assert any(sentence in fault for fault in found), (sentence, found)


def test_check_says_which_check_does_not_ask_the_library(begun: Path, warm: Examiner) -> None:
    lab = finished(begun)
    changed(
        lab.suite / "test_halving.py",
        "    assert_matches(",
        "    with __import__('contextlib').suppress(Exception):\n        assert_matches(",
    )
    found = prove(find_lab(lab.id, find_labs([begun])), seeds=1, using=warm).faults
    assert any("although the library is wrong" in fault.sentence for fault in found), found


def test_a_misconception_that_some_draws_pay_is_told(begun: Path, warm: Examiner) -> None:
    lab = finished(begun)
    changes = {
        lab.suite / "test_halving.py": ("draw.latents(3,", "draw.latents(draw.choice([3, 4]),"),
        lab.suite / "wrong.yaml": ("* 2", "* (2 if sample.shape[0] == 3 else 0.5)"),
    }
    for path, (old, new) in changes.items():
        changed(path, old, new)
    lab = find_lab(lab.id, find_labs([begun]))
    assert [fault.sentence for fault in prove(lab, seeds=1, using=warm).faults] == []
    found = [fault.sentence for fault in prove(lab, seeds=20, using=warm).faults]
    assert found
    assert all("doubled passes todo 7.1 with seed " in sentence for sentence in found)


def test_an_edited_copy_of_the_solution_becomes_an_entry(
    begun: Path, warm: Examiner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grading, "examiner", lambda **options: nullcontext(warm))
    lab = finished(begun)
    copy = begun / "copy.py"
    copy.write_text(SOLUTION.replace("sample * 0.5", "sample / 2 + 1"), encoding="utf-8")
    command = ("--labs", str(begun), "wrong", "mine/lab-07", "7.1", "one-more", "--file", str(copy))
    result = run(*command, "--write")
    assert result.exit_code == 0, result.output
    said = """- todo: "7.1"
  name: one-more
  replace: return sample * 0.5
  by: return sample / 2 + 1
"""
    assert result.output.startswith(said)
    assert "caught by test_every_number_is_halved" in result.output
    assert (lab.suite / "wrong.yaml").read_text(encoding="utf-8") == f"{WRONG}\n{said}"
    assert "7.1 has a one-more already" in run(*command).output

    copy.write_text(SOLUTION.replace("0.5", "2"), encoding="utf-8")
    result = run(*command[:5], "rival", *command[6:])
    assert "caught by test_every_number_is_halved (named doubled)" in result.output

    copy.write_text(SOLUTION.replace("0.5", "0.50"), encoding="utf-8")
    result = run(*command[:5], "paid", *command[6:])
    assert result.exit_code == 1
    assert "7.1 has full marks" in result.output
    copy.write_text(SOLUTION, encoding="utf-8")
    assert "nothing was changed" in run(*command[:5], "same", *command[6:]).output


def test_new_touches_no_lab_that_is_there(begun: Path) -> None:
    result = run("new", "mine", "lab-07", "Other", "--into", str(begun))
    assert result.exit_code == 2
    assert "has a lab-07 already" in result.output


@pytest.mark.parametrize(
    ("lab", "title"), [("lab7", "Halving"), ("../lab-07", "Halving"), ("lab-07", "…")]
)
def test_new_refuses_names_that_are_none(lab: str, title: str, tmp_path: Path) -> None:
    result = run("new", "mine", lab, title, "--into", str(tmp_path))
    assert result.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_the_names_in_authoring_md_exist() -> None:
    import infralens.examiner as api

    text = (Path(__file__).resolve().parents[2] / "grader" / "AUTHORING.md").read_text("utf-8")
    for name in api.__all__:
        if name not in ("Draw", "Recorded"):
            assert name in text, name
