"""How far a misconception is judged: whole in a whole proof, to its name in a part of one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from infralens.authoring import runs
from infralens.authoring.checking import check_labs
from infralens.authoring.proofs import MarginRow, Proof
from infralens.grading import Wishes
from infralens.labs import find_lab, find_labs
from infralens.report import CheckResult, Margin, Report
from infralens.wrong import wrong_answers

LAB = find_lab("lab-03", find_labs())
WRONG = next(wrong for wrong in wrong_answers(LAB) if wrong.says)
NEAR, FAR = (Margin("float32", float(ratio), 1.0, 1.0) for ratio in (5, 500))
FIRST = CheckResult("test_a", "A", "failed", misconception=WRONG.name, margins=(FAR,))
SECOND = replace(FIRST, name="test_b")
LEFT_OUT = CheckResult("test_b", "B", "not_run")


@pytest.mark.parametrize(
    ("first", "part", "crossing", "asked"),
    [
        (FIRST, True, 0, ["first failure"]),
        (replace(FIRST, misconception=None), True, 0, ["first failure", "never"]),
        (replace(FIRST, margins=(NEAR,)), True, 0, ["first failure", "never"]),
        (replace(FIRST, status="passed"), True, 0, ["first failure", "never"]),
        (FIRST, False, 0, ["never"]),
        (FIRST, True, 1, ["never"]),
    ],
    ids=["named", "nameless", "near", "paid", "whole proof", "crossing"],
)
def test_a_misconception_is_judged_whole_unless_its_first_failure_says_all(
    monkeypatch: pytest.MonkeyPatch,
    report_of: Any,
    first: CheckResult,
    part: bool,
    crossing: int,
    asked: Sequence[str],
) -> None:
    seen: list[str] = []

    def judged(*_: object, wishes: Wishes, **__: object) -> Report:
        seen.append(wishes.stop)
        checks = [first, LEFT_OUT] if wishes.stop == "first failure" else [FIRST, SECOND]
        report: Report = report_of((WRONG.todo, 2, "failed", checks))
        return report

    monkeypatch.setattr(runs, "judge_wrong", judged)
    monkeypatch.setattr(runs, "wrong_answers", lambda lab: (WRONG,))
    proof = Proof(LAB)
    proof.margins |= {name: MarginRow(name, WRONG.todo) for name in ("test_a", "test_b")}
    chosen: runs.Choose = (lambda names: names) if part else None
    nobody: Any = SimpleNamespace()
    bench = runs.Workbench(proof, Path(), nobody, lambda step: None, 0, chosen, crossing)
    runs.prove_misconceptions(bench)
    assert seen == list(asked)
    assert proof.faults == []
    killers = {name for name, row in proof.margins.items() if row.kills}
    assert killers == ({"test_a"} if asked == ["first failure"] else {"test_a", "test_b"})


def test_of_several_labs_the_texts_are_proven_one_lab_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A quiz imports parts of diffusers late, which two threads at once break."""
    inside: list[str] = []
    seen: list[int] = []

    def proven(proof: Proof) -> None:
        inside.append(proof.lab.id)
        time.sleep(0.05)
        seen.append(len(inside))
        inside.remove(proof.lab.id)
        proof.fault("has texts that end its proof here")

    monkeypatch.setattr(runs, "prove_texts", proven)
    proofs = check_labs(find_labs()[:4], seeds=1, jobs=4, console=Console(quiet=True))
    assert len(proofs) == 4
    assert seen == [1, 1, 1, 1]
