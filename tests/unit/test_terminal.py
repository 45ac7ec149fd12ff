"""A report on a terminal: a line a todo, the first mistake explained, nothing that could steer."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from infralens.report import CheckResult, Detail, Frame
from infralens.show.terminal import first_failure, show_report

GOOD = CheckResult("a", "A.", "passed")
STUB = CheckResult("b", "B.", "error", message="not written yet (TODO 3.1: timesteps)")
WRONG = CheckResult(
    name="test_scaled",
    title="The input is scaled by the noise level.",
    status="failed",
    message="the result: off by up to 2.5; rounding explains 1e-06",
    misconception="sigma-not-root",
    max_abs_error=2.5,
    detail=Detail(
        call="Euler.scale_model_input(sample=<float32 (2, 4)>, t=tensor(751))",
        case="test_scaled[leading]",
        call_index=1,
        expected="[1.5, 2.5] …",
        yours="[4, 5] …",
        where="largest difference 2.5 at [0, 1]",
        explanation="The sample was divided by σ. Divide by √(σ² + 1).",
        reads="handbook/scheduler.md#scaling-the-input",
        output="sigma is 4.1\n",
    ),
)
RAISED = CheckResult(
    name="test_raised",
    title="A step.",
    status="error",
    message="your code raised KeyError on line 12: 'x'",
    detail=Detail(frames=(Frame(12, "step", "    return table['x']"),)),
)


def shown(report: Any, *, width: int = 100, encoding: str = "utf-8", colour: bool = False) -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, errors="replace")
    console = Console(
        file=stream,
        width=width,
        highlight=False,
        emoji=False,
        markup=False,
        force_terminal=colour,
        color_system="truecolor" if colour else None,
        legacy_windows=False,
    )
    show_report(report, console, "lab-03")
    stream.flush()
    return raw.getvalue().decode(encoding)


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]


def test_full_marks(report_of: Any) -> None:
    report = report_of(("3.1", 2, "passed", [GOOD]), ("3.2", 10, "passed", [GOOD]))
    assert lines(shown(report)) == [
        "",
        "lab-03 · Scheduler Reading   seed 7 · cpu · 1.2 s",
        "",
        "  ✔  3.1  Title 3.1    2/2",
        "  ✔  3.2  Title 3.2  10/10",
        "",
        "  12 of 12 points",
    ]


def test_an_untouched_stub_says_what_is_next(report_of: Any) -> None:
    report = report_of(("3.1", 2, "not_started", [STUB]), ("3.2", 2, "not_started", [STUB]))
    assert lines(shown(report))[3:] == [
        "  ·  3.1  Title 3.1  0/2  not started",
        "  ·  3.2  Title 3.2  0/2  not started",
        "",
        "  0 of 4 points",
        "",
        "next  3.1 Title 3.1",
        "  read  infralens read 3.1",
        "  hint  infralens hint 3.1",
    ]


def test_the_first_mistake_is_explained_and_named(report_of: Any) -> None:
    report = report_of(("3.1", 2, "passed", [GOOD]), ("3.3", 4, "failed", [GOOD, WRONG, RAISED]))
    assert lines(shown(report))[3:] == [
        "  ✔  3.1  Title 3.1  2/2",
        "  ✘  3.3  Title 3.3  0/4  sigma-not-root",
        "",
        "  2 of 6 points",
        "",
        "3.3  The input is scaled by the noise level.",
        "  the result: off by up to 2.5; rounding explains 1e-06",
        "",
        "  call      Euler.scale_model_input(sample=<float32 (2, 4)>, t=tensor(751))",
        "  expected  [1.5, 2.5] …",
        "  yours     [4, 5] …",
        "            largest difference 2.5 at [0, 1]",
        "",
        "  Your code printed:",
        "    sigma is 4.1",
        "",
        "  The sample was divided by σ. Divide by √(σ² + 1).",
        "  (sigma-not-root)",
        "",
        "  read   infralens read handbook/scheduler.md#scaling-the-input",
        "  hint   infralens hint 3.3",
        "  debug  infralens debug 3.3 --seed 7",
    ]


def test_an_exception_shows_the_learners_own_line(report_of: Any) -> None:
    text = shown(report_of(("3.3", 4, "error", [RAISED])))
    assert "your code raised KeyError on line 12: 'x'" in text
    assert "line 12  return table['x']" in text
    assert "stopped" in text


def test_a_file_that_does_not_run_is_one_line_and_no_todo_s_fault(report_of: Any) -> None:
    frames = (Frame(7, "", "def scale(x:"),)
    message = "syntax error on line 7: '(' was never closed"
    check = CheckResult("a", "A.", "error", message=message, detail=Detail(frames=frames))
    report = report_of(("3.1", 2, "error", [check]), ("3.2", 2, "error", [check]))
    assert lines(shown(report))[3:] == [
        f"  ✘  {message}",
        "",
        "  0 of 4 points",
        "",
        "  line 7  def scale(x:",
    ]


@pytest.mark.parametrize("failing", [WRONG])
def test_every_colour_of_text_can_be_read_on_white_and_on_black(
    report_of: Any, failing: CheckResult
) -> None:
    text = shown(report_of(("3.3", 4, "failed", [failing])), colour=True)
    assert not {f"\x1b[{code}m" for code in (33, 34, 36, 93)} & set(re.findall(r"\x1b\[\d+m", text))


def test_commands_begin_as_the_one_that_was_given(report_of: Any) -> None:
    stream = io.StringIO()
    report = report_of(("3.3", 4, "failed", [WRONG]))
    show_report(report, Console(file=stream, width=60), "lab-03", "infralens --labs my-labs")
    for word in ("read handbook", "hint 3.3", "debug 3.3"):
        assert f"infralens --labs my-labs {word}" in stream.getvalue()


def test_a_todo_that_was_begun_is_explained_before_one_that_was_not(report_of: Any) -> None:
    report = report_of(("3.1", 2, "not_started", [STUB]), ("3.3", 4, "failed", [WRONG]))
    found = first_failure(report)
    assert found is not None
    assert found[0].id == "3.3"


def test_a_grader_that_failed_says_so_and_judges_nothing(report_of: Any) -> None:
    report = report_of(("3.1", 2, "error", [STUB]), fault="diffusers and the formula disagree")
    text = shown(report)
    assert "The grader failed; your answers were not judged." in text
    assert "diffusers and the formula disagree" in text
    assert "points" not in text
    assert "hint" not in text


def test_another_track_is_named_in_every_command(report_of: Any) -> None:
    text = shown(report_of(("4.1", 4, "failed", [WRONG]), lab="diffsynth/lab-04"))
    assert "infralens hint diffsynth/4.1" in text
    assert "infralens debug diffsynth/4.1 --seed 7" in text


def test_an_ascii_terminal_gets_marks_it_can_show(report_of: Any) -> None:
    report = report_of(
        ("3.1", 2, "passed", [GOOD]),
        ("3.2", 2, "not_started", [STUB]),
        ("3.3", 4, "failed", [WRONG]),
    )
    rows = lines(shown(report, encoding="ascii"))
    assert rows[3:6] == [
        "  +  3.1  Title 3.1  2/2",
        "  -  3.2  Title 3.2  0/2  not started",
        "  x  3.3  Title 3.3  0/4  sigma-not-root",
    ]


@pytest.mark.parametrize("width", [30, 40, 60])
def test_a_narrow_terminal_gets_no_longer_lines_and_no_fewer_words(
    report_of: Any, width: int
) -> None:
    report = report_of(("3.3", 4, "failed", [WRONG]))
    long = replace(report.todos[0], title="Noise levels, interpolated and Karras")
    text = shown(replace(report, todos=(long,)), width=width)
    rows = [line.rstrip() for line in text.splitlines()]
    assert max(len(row) for row in rows if "  infralens " not in row) <= width
    # What is to be copied is never split.
    assert "  read   infralens read handbook/scheduler.md#scaling-the-input" in rows
    together = "".join(text.split())
    for piece in ("3.3", "0/4", "scale_model_input", "sigma-not-root", "infralenshint3.3"):
        assert piece in together


@pytest.mark.parametrize("width", [20, 24, 28])
def test_a_very_narrow_terminal_still_shows_marks_and_points(report_of: Any, width: int) -> None:
    report = report_of(("3.1", 10, "passed", [GOOD]), ("3.3", 4, "failed", [WRONG]))
    rows = lines(shown(report, width=width))
    assert [row.split()[:2] for row in rows if "/" in row][:2] == [["✔", "3.1"], ["✘", "3.3"]]
    assert any(row.endswith("10/10") for row in rows)
    assert any(row.endswith("0/4") for row in rows)


@pytest.mark.parametrize("colour", [False, True])
def test_hostile_text_steers_nothing(report_of: Any, hostile_text: str, colour: bool) -> None:
    detail = Detail(
        call=hostile_text,
        expected=hostile_text,
        yours=hostile_text,
        where=hostile_text,
        frames=(Frame(1, hostile_text, hostile_text),),
        output=hostile_text + "\n" * 500 + hostile_text,
    )
    check = CheckResult("a", "A.", "failed", message=hostile_text * 3, detail=detail)
    for fault in (None, hostile_text):
        text = shown(report_of(("3.3", 4, "failed", [check]), fault=fault), colour=colour)
        assert "\x1b[2J" not in text
        assert "\x1b]0" not in text
        assert not set(text) & set("\x00\x07\x08\x7f\x9b\u202e\u2066\ud800\ufeff\ufffe")
        assert "\\x1b[2J" in text
        assert colour or "\x1b" not in text
    assert "[bold]no[/bold] :smile:" in text


def test_what_a_submission_printed_without_end_is_cut(report_of: Any, hostile_text: str) -> None:
    check = CheckResult("a", "A.", "failed", detail=Detail(output="spam\n" * 100_000))
    text = shown(report_of(("3.3", 4, "failed", [check])))
    assert text.count("spam") == 12
    assert "99,988 more lines" in text
    check = CheckResult("a", "A.", "failed", message=hostile_text * 200)
    assert len(shown(report_of(("3.3", 4, "failed", [check])))) < 5000


def test_functions_of_other_todos_that_may_be_wrong_are_named(report_of: Any) -> None:
    passed, failed = ("passed", [GOOD]), ("failed", [WRONG])
    report = report_of(("3.1", 2, *passed), ("3.2", 2, *failed), ("3.8", 1, *failed))
    first, second, third = report.todos

    def leaning_on(*uses: tuple[str, str]) -> str:
        leaning = replace(second, uses=uses)
        return shown(replace(report, todos=(first, leaning, third)))

    text = leaning_on(("timesteps", "3.1"), ("half", "3.8"), ("combine", "3.9"))
    assert "It calls your half (3.8): make sure of that first." in text
    text = leaning_on(("timesteps", "3.1"), ("combine", "3.9"))
    assert "It calls your combine (3.9), not graded in this run." in text
    assert "It calls your" not in leaning_on(("timesteps", "3.1"))


def test_every_todo_that_failed_is_listed_with_what_it_follows_from(report_of: Any) -> None:
    failed = ("failed", [WRONG])
    report = report_of(("2.1", 2, *failed), ("2.3", 2, *failed), ("2.4", 1, *failed))
    first, second, third = report.todos
    second = replace(second, uses=(("half", "2.1"),))
    lines = shown(replace(report, todos=(first, second, third))).splitlines()
    assert "  2.3  calls your 2.1, which is wrong" in [line.rstrip() for line in lines]
    assert sum(line.strip().startswith("2.4  ") for line in lines) == 1
    assert "which is wrong" not in shown(replace(report, todos=(first,)))
