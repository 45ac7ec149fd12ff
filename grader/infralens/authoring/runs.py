"""What is proven by grading: stubs, solutions, misconceptions, margins, a sabotaged library.

Everything here grades with the same `grade()` that judges a learner.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infralens.authoring.judging_wrong import TRUSTED, WHETHER_PAID, judge_wrong
from infralens.authoring.proofs import Confusion, MarginRow, Proof
from infralens.authoring.texts import current_stub, prove_texts, unfit_edits
from infralens.authoring.unfit import unfit_texts
from infralens.grading import Examiner, Wishes, examiner, grade, rehearse
from infralens.labs import Lab
from infralens.report import CheckResult, Report, TodoResult
from infralens.stubs import MarkerError
from infralens.wrong import WrongAnswer, wrong_answers

SEEDS = 20
SEEDS_A_MISCONCEPTION = 5  # so many of the solution's seeds are one for each misconception
SOLUTION_SHARE = 0.25  # of the tolerance, in float32
HALF_SHARE = 0.5  # of the tolerance, in half precision
SEPARATION = 10.0  # times the tolerance: the nearest misconception and the all-zeros answer
HALF = ("float16", "bfloat16")
LEVELS = (TRUSTED, "auto")  # auto is the sandbox, where there is one
CROSSING = 3  # misconceptions that are graded as a learner's file is; the examiner runs the others
TO_THE_FIRST_NAME = Wishes(stop="first failure")
OnStep = Callable[[str], None]
Choose = Callable[[Sequence[str]], Collection[str]] | None  # of the names of misconceptions


def prove(
    lab: Lab,
    *,
    seeds: int = SEEDS,
    first_seed: int = 0,
    chosen: Choose = None,
    crossing: int | None = CROSSING,
    nameless: bool = False,
    on_step: OnStep = lambda step: None,
    despite_texts: bool = False,
    using: Examiner | None = None,
    one_at_a_time: AbstractContextManager[Any] | None = None,
) -> Proof:
    """Grade stub, solution, misconceptions and a sabotaged library; collect every fault.

    Where the texts have faults nothing is graded, which takes minutes, unless `despite_texts`.
    So many misconceptions (None: all) are `crossing` to a process of their own, as answers of
    learners do, at the two levels in turn; the examiner runs the others.
    With `nameless`, wrong answers that have no name are judged too, and the names they get noted.
    With `chosen`, only the misconceptions that it takes: what each check is there for is then not
    asked, since another might be the one that it alone catches, and the examiner goes no further
    than to a failure that has its name. With `using`, in an examiner that is warm. The texts,
    whose quiz runs in this process, are proven within `one_at_a_time`.
    """
    proof = Proof(lab)
    if lab.solution is None or not lab.solution.is_file():
        proof.fault("has no solution here; check it in a checkout or on a solutions branch")
        return proof
    on_step("texts")
    with one_at_a_time or nullcontext():
        prove_texts(proof)
        proof.texts_alone = bool(proof.faults) and (
            not despite_texts or any(unfit_texts(lab)) or any(unfit_edits(lab))
        )
    if proof.texts_alone:
        return proof
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="infralens-check-")))
        warm = using or stack.enter_context(examiner(serve=True))
        workbench = Workbench(proof, folder, warm, on_step, first_seed, chosen, crossing)
        prove_stub(workbench)
        if prove_solution(workbench, seeds):
            prove_rehearsal(workbench)
            prove_misconceptions(workbench)
            if nameless:
                prove_nameless(workbench)
            prove_nothing_is_left(workbench)
            prove_no_draw_pays(workbench, seeds // SEEDS_A_MISCONCEPTION)
            if chosen is None:
                prove_purpose(proof)
            prove_margins(proof)
            prove_sabotage(workbench)
    return proof


@dataclass
class Workbench:
    """What the steps of a proof share."""

    proof: Proof
    folder: Path
    warm: Examiner
    on_step: OnStep
    first_seed: int = 0
    chosen: Choose = None
    crossing: int | None = CROSSING

    def misconceptions(self) -> list[tuple[int, WrongAnswer]]:
        """Those to try, numbered from 1; those of unknown todos are told among the texts."""
        lab = self.proof.lab
        listed = {todo.id for todo in lab.todos}
        known = [wrong for wrong in wrong_answers(lab) if wrong.says]
        names = [wrong.name for wrong in known]
        taken = names if self.chosen is None else self.chosen(names)
        return [
            (number, wrong)
            for number, wrong in enumerate(known, start=1)
            if wrong.todo in listed and wrong.name in taken
        ]

    def grade(
        self,
        text: str,
        *,
        seed: int | None = None,
        todos: Sequence[str] | None = None,
        wishes: Wishes = Wishes(),  # noqa: B008  # frozen
    ) -> Report:
        path = self.folder / self.proof.lab.file
        path.write_text(text, encoding="utf-8")
        self.proof.grades += 1
        lab = self.proof.lab
        return grade(
            lab,
            path,
            seed=seed,
            todos=todos,
            isolation=TRUSTED,
            wishes=wishes,
            using=self.warm,
        )

    def judge(
        self, wrong: WrongAnswer, seed: int, *, level: str | None = None, **more: Any
    ) -> Report:
        """What comes of a wrong answer; at a level of isolation, where it is to cross."""
        self.proof.grades += 1
        return judge_wrong(
            self.proof.lab,
            wrong,
            self.folder / self.proof.lab.file,
            self.warm,
            seed=seed,
            level=level,
            **more,
        )

    def place_of(self, todo: str) -> int:
        """The number of a todo in its lab, from 1."""
        return [of.id for of in self.proof.lab.todos].index(todo) + 1

    def levels(self, known: Sequence[tuple[int, WrongAnswer]]) -> dict[int, str]:
        """The numbers of those that are to cross, and at which level."""
        numbers = [number for number, _ in known]
        if self.crossing is not None and self.crossing < len(numbers):
            numbers = random.Random(self.first_seed).sample(numbers, self.crossing)
        return {number: LEVELS[turn % len(LEVELS)] for turn, number in enumerate(numbers)}

    def solution(self) -> str:
        assert self.proof.lab.solution is not None
        return self.proof.lab.solution.read_text(encoding="utf-8")


def prove_stub(bench: Workbench) -> None:
    """The untouched stub scores nothing, and every todo says that it was not started."""
    bench.on_step("stub")
    try:
        report = bench.grade(current_stub(bench.proof.lab))
    except MarkerError:
        return
    if report.grader_error:
        bench.proof.fault(f"grading the stub: {report.grader_error}")
    for todo in report.todos:
        if todo.status != "not_started" or todo.score:
            bench.proof.fault(
                f"the stub's todo {todo.id} is {todo.status} with {todo.score} points"
            )


def prove_solution(bench: Workbench, seeds: int) -> bool:
    """Full marks over many seeds; records each check's margins. False when it is not so."""
    for turn in range(seeds):
        bench.on_step(f"solution, seed {turn + 1} of {seeds}")
        seed = bench.first_seed + turn
        report = bench.grade(bench.solution(), seed=seed)
        if not report.passed:
            bench.proof.fault(f"the solution fails with seed {seed}: {_reason(report)}")
            return False
        for todo in report.todos:
            for check in todo.checks:
                row = bench.proof.margins.setdefault(check.name, MarginRow(check.name, todo.id))
                row.guards = check.guards
                _measure(row, check)
    return True


def prove_rehearsal(bench: Workbench) -> None:
    """Run in the examiner, the solution passes too: else what fails there might be right."""
    bench.on_step("solution in the examiner")
    lab, seed = bench.proof.lab, bench.first_seed
    todos = [todo.id for todo in lab.todos]
    report = rehearse(lab, None, todos, using=bench.warm, seed=seed)
    if not report.passed:
        bench.proof.fault(f"in the examiner the solution fails: {_reason(report)}")


def _measure(row: MarginRow, check: CheckResult) -> None:
    for margin in check.margins:
        row.numeric = True
        if margin.dtype in HALF:
            row.half = max(row.half, margin.ratio)
        else:
            row.solution = max(row.solution, margin.ratio)
            if margin.tolerance > 0:
                row.zeros = min(row.zeros, margin.scale / margin.tolerance)


def unpassed(report: Report) -> Iterator[tuple[TodoResult, CheckResult]]:
    """The checks of a report that did not pass."""
    for todo in report.todos:
        for check in todo.checks:
            if check.status != "passed":
                yield todo, check


def prove_misconceptions(bench: Workbench) -> None:
    """Each misconception fails its todo, is named, and lies far beyond the tolerance."""
    proof = bench.proof
    proof.misconceptions = sum(wrong.says is not None for wrong in wrong_answers(proof.lab))
    known = bench.misconceptions()
    levels = bench.levels(known)
    for number, wrong in known:
        bench.on_step(f"misconception {number} of {proof.misconceptions}: {wrong.name}")
        # In the examiner one seed a todo: what one of them is found to answer serves the others.
        level = levels.get(number)
        seed = bench.first_seed + (number if level else bench.place_of(wrong.todo))
        report, killers = _judged(bench, wrong, seed, level)
        if report.grader_error:
            proof.fault(f"misconception {wrong.name}: {report.grader_error}")
            continue
        if not killers:
            proof.fault(f"misconception {wrong.name} passes todo {wrong.todo} with seed {seed}")
            continue
        named = {check.misconception for check in killers}
        if wrong.name not in named and seed != number:
            # With some draws two mistakes have one answer; with this seed it has its own.
            again = bench.judge(wrong, number, level=level, wishes=Wishes())
            named |= {check.misconception for _, check in unpassed(again)}
        if wrong.name not in named:
            said = "; ".join(f"{check.name}: {check.message}" for check in killers)
            proof.fault(f"misconception {wrong.name} is not named (seed {seed}; {named}; {said})")
        _record_kills(proof, wrong, killers)
        _record_confusions(proof, wrong.todo, wrong.name, killers)


def _judged(
    bench: Workbench, wrong: WrongAnswer, seed: int, level: str | None
) -> tuple[Report, list[CheckResult]]:
    """What comes of a misconception, and the checks that it fails.

    Where it is not asked what each check is there for, the first failure is enough if it has the
    name and lies far beyond the tolerance. What crosses is judged whole, as a learner's file is.
    """
    if bench.chosen is not None and level is None:
        report = bench.judge(wrong, seed, wishes=TO_THE_FIRST_NAME)
        killers = [check for _, check in unpassed(report) if check.status != "not_run"]
        named = any(check.misconception == wrong.name for check in killers)
        if report.grader_error or (named and max(map(_ratio, killers)) >= SEPARATION):
            return report, killers
    report = bench.judge(wrong, seed, level=level, wishes=Wishes())
    return report, [check for _, check in unpassed(report)]


def prove_nameless(bench: Workbench) -> None:
    """Each wrong answer that has no name fails its todo; under which names it goes is noted."""
    proof, lab = bench.proof, bench.proof.lab
    others = [wrong for wrong in wrong_answers(lab) if wrong.says is None]
    for number, wrong in enumerate(others, start=1):
        bench.on_step(f"wrong answer {number} of {len(others)}: {wrong.name}")
        seed = bench.first_seed + bench.place_of(wrong.todo)
        report = bench.judge(wrong, seed, wishes=Wishes())
        if report.grader_error:
            proof.fault(f"wrong answer {wrong.name}: {report.grader_error}")
        elif report.score:
            proof.fault(f"wrong answer {wrong.name} passes todo {wrong.todo} with seed {seed}")
        else:
            killers = [check for _, check in unpassed(report)]
            _record_confusions(proof, wrong.todo, wrong.name, killers)


def _record_confusions(proof: Proof, todo: str, wrong: str, killers: Sequence[CheckResult]) -> None:
    said = [check for check in killers if check.misconception not in (None, wrong)]
    for named in dict.fromkeys(check.misconception for check in said):
        so = [check for check in said if check.misconception == named]
        explanation = next((c.detail.explanation for c in so if c.detail), None)
        names = tuple(check.name for check in so)
        proof.confusions.append(
            Confusion(todo, wrong, named or "", explanation or "", names, len(so) == len(killers))
        )


def prove_nothing_is_left(bench: Workbench) -> None:
    """Misconceptions run in the examiner to find names: the next submission must not notice."""
    bench.on_step("solution after the misconceptions")
    report = bench.grade(bench.solution(), seed=bench.first_seed)
    if not report.passed:
        bench.proof.fault(f"after the misconceptions the solution fails: {_reason(report)}")


def prove_no_draw_pays(bench: Workbench, seeds: int) -> None:
    """Each misconception fails its todo with other seeds too: no draw makes it right.

    The first of the seeds was graded before, and its answer named.
    """
    if seeds < 2:
        return
    proof = bench.proof
    wrong_ones = bench.misconceptions()
    for number, wrong in wrong_ones:
        bench.on_step(f"misconception {number}, other seeds: {wrong.name}")
        for turn in range(1, seeds):
            seed = bench.first_seed + number + turn * len(wrong_ones)
            report = bench.judge(wrong, seed, wishes=WHETHER_PAID)
            if report.grader_error:
                proof.fault(f"misconception {wrong.name}, seed {seed}: {report.grader_error}")
            elif report.score:
                proof.fault(f"misconception {wrong.name} passes todo {wrong.todo} with seed {seed}")


def _reason(report: Report) -> str:
    return report.grader_error or "; ".join(
        f"{todo.id} {check.name}: {check.message}" for todo, check in unpassed(report)
    )


def _record_kills(proof: Proof, wrong: WrongAnswer, killers: Sequence[CheckResult]) -> None:
    ratios = {check.name: _ratio(check) for check in killers}
    best = max(ratios, key=lambda name: ratios[name])
    for name, ratio in ratios.items():
        row = proof.margins[name]
        row.kills.append(wrong.name)
        if len(killers) == 1:
            row.only_killer_of.append(wrong.name)
        if name == best and row.numeric and ratio < row.nearest:
            row.nearest, row.nearest_name = ratio, wrong.name


def _ratio(check: CheckResult) -> float:
    """How many tolerances the answer was off; infinite for a wrong kind, shape or exact value."""
    ratio = max((margin.ratio for margin in check.margins), default=0.0)
    return ratio if ratio > 1 else float("inf")  # it failed by something else than a number


def prove_purpose(proof: Proof) -> None:
    """Every check alone catches something, or names what it guards."""
    for row in proof.margins.values():
        if not row.only_killer_of and not row.guards:
            also = f" (it shares {', '.join(row.kills)})" if row.kills else ""
            proof.fault(
                f"check {row.check} catches no misconception alone and guards nothing{also}"
            )


def prove_margins(proof: Proof) -> None:
    """Right answers lie well inside the tolerance, wrong ones well outside."""
    for row in proof.margins.values():
        for used, share in ((row.solution, SOLUTION_SHARE), (row.half, HALF_SHARE)):
            if used > share:
                proof.fault(
                    f"check {row.check}: the solution uses {used:.2f} of the tolerance, "
                    f"more than {share}"
                )
        if row.nearest < SEPARATION:
            proof.fault(
                f"check {row.check}: {row.nearest_name} is only {row.nearest:.1f} tolerances off"
            )
        if row.zeros < SEPARATION:
            proof.fault(f"check {row.check}: zeros are only {row.zeros:.1f} tolerances off")


def prove_sabotage(bench: Workbench) -> None:
    """With the live library perturbed, no check that asks it may pass the solution."""
    bench.on_step("sabotaged library")
    lab, seed = bench.proof.lab, bench.first_seed
    todos = [todo.id for todo in lab.todos]
    wishes = Wishes(naming="none")
    report = rehearse(lab, None, todos, using=bench.warm, seed=seed, wishes=wishes, sabotaged=True)
    for todo in report.todos:
        for check in todo.checks:
            if check.status == "passed" and "library" in check.reference:
                bench.proof.fault(f"check {check.name} passes although the library is wrong")
