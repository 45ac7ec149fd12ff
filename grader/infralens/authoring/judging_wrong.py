"""A lab's own wrong answers, judged at the least cost."""

from __future__ import annotations

from pathlib import Path

from infralens.grading import Examiner, Wishes, grade, rehearse
from infralens.labs import Lab
from infralens.report import Report
from infralens.wrong import WrongAnswer

TRUSTED = "process"  # an author's own code; a sandbox for each grade would only take longer
WHETHER_PAID = Wishes(naming="none", stop="first failure")


def judge_wrong(
    lab: Lab,
    wrong: WrongAnswer,
    path: Path,
    using: Examiner,
    *,
    seed: int,
    wishes: Wishes = WHETHER_PAID,
    level: str | None = None,
) -> Report:
    """What comes of a wrong answer of the lab's own. `path` is where a submission may be written.

    The examiner runs it itself: what is wrong there is wrong. What is not is graded in a process of
    its own, as a learner's file would be, and so is what `crosses` or has a `level` of isolation.
    """
    if level is None and not wrong.crosses:
        report = rehearse(lab, wrong.name, [wrong.todo], using=using, seed=seed, wishes=wishes)
        if report.grader_error is None and not report.score:
            return report
    assert lab.solution is not None
    path.write_text(wrong.edited(lab.solution.read_text(encoding="utf-8")), encoding="utf-8")
    return grade(
        lab,
        path,
        seed=seed,
        todos=[wrong.todo],
        isolation=level or TRUSTED,
        wishes=wishes,
        using=using,
        alone=level not in (None, TRUSTED),
    )
