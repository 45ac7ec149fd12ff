"""Every wrong answer to a lab over many seeds. Run: python tests/contract/audit.py diffusers/lab-03

A test grades each with one seed: an answer that one draw in twenty pays gets past it for weeks.
This takes minutes a lab and is run by hand, after a check or what it draws was changed. It prints
what was paid with which seeds, and exits with 1 if anything was.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.progress import track

from infralens.authoring.judging_wrong import judge_wrong
from infralens.grading import Examiner, examiner
from infralens.labs import Lab
from infralens.wrong import WrongAnswer, wrong_answers
from variants import LABS  # a module beside this one

SEEDS = 20
MOST = 2**32


def faults(
    lab: Lab, wrong: WrongAnswer, seeds: list[int], folder: Path, warm: Examiner
) -> list[str]:
    """What went otherwise than it should: points for a wrong answer, or no judgement at all."""
    path = folder / lab.file
    found = []
    for seed in seeds:
        report = judge_wrong(lab, wrong, path, warm, seed=seed)
        if report.grader_error:
            found.append(f"seed {seed}: {report.grader_error}")
        elif report.score or report.todos[0].status not in ("failed", "error"):
            found.append(f"paid with seed {seed}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lab", nargs="+", choices=[lab.id for lab in LABS])
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--todo", action="append", help="of the wrong answers those to this todo")
    options = parser.parse_args()
    console, bad = Console(), 0
    with examiner(serve=True) as warm, tempfile.TemporaryDirectory() as name:
        for lab in [lab for lab in LABS if lab.id in options.lab]:
            answers = [
                wrong
                for wrong in wrong_answers(lab)
                if options.todo is None or wrong.todo in options.todo
            ]
            for wrong in track(answers, f"{lab.id}: {len(answers)} wrong answers", console=console):
                seeds = [random.randrange(MOST) for _ in range(options.seeds)]
                found = faults(lab, wrong, seeds, Path(name), warm)
                bad += bool(found)
                if found:
                    console.print(f"{wrong.todo} {wrong.name}: {'; '.join(found)}", markup=False)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
