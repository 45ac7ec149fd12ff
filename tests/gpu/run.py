"""Every suite on the solutions and the misconceptions, on one device. Run: python tests/gpu/run.py

Prints one table: for each lab and dtype the largest share of the tolerance that the solution used,
and how many misconceptions were failed and named. The same path runs on the CPU and on a GPU.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from infralens.examiner.errors import UnavailableError
from infralens.grading import Examiner, examiner, grade
from infralens.labs import Lab, find_labs
from infralens.report import Report
from infralens.wrong import wrong_answers


def graded(lab: Lab, text: str, folder: Path, device: str, seed: int, using: Examiner) -> Report:
    path = folder / lab.file
    path.write_text(text, encoding="utf-8")
    return grade(lab, path, device=device, seed=seed, using=using)


def shares(report: Report) -> dict[str, float]:
    """The largest share of the tolerance that was used, for each dtype."""
    found: dict[str, float] = {}
    for todo in report.todos:
        for check in todo.checks:
            for margin in check.margins:
                found[margin.dtype] = max(found.get(margin.dtype, 0.0), margin.ratio)
    return found


def main() -> int:
    """0 when every solution has full marks and every misconception is failed and named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--lab", action="append", help="only this lab (again for more)")
    options = parser.parse_args()
    table = Table("lab", "device", "solution", "share of tolerance", "misconceptions", "named")
    good = True
    with examiner(serve=True) as warm, tempfile.TemporaryDirectory() as name:
        for lab in find_labs():
            if lab.solution is None or (options.lab and lab.id not in options.lab):
                continue
            text = lab.solution.read_text(encoding="utf-8")
            try:
                runs = [
                    graded(lab, text, Path(name), options.device, seed, warm)
                    for seed in range(options.seeds)
                ]
            except UnavailableError as error:
                print(error)
                return 2
            used: dict[str, float] = {}
            for run in runs:
                for dtype, share in shares(run).items():
                    used[dtype] = max(used.get(dtype, 0.0), share)
            wrong_ones = [wrong for wrong in wrong_answers(lab) if wrong.says]
            failed = named = 0
            for number, wrong in enumerate(wrong_ones):
                submission = wrong.edited(text)
                report = graded(lab, submission, Path(name), options.device, number, warm)
                todo = next(todo for todo in report.todos if todo.id == wrong.todo)
                failed += todo.score == 0
                named += wrong.name in {check.misconception for check in todo.checks}
            full = sum(run.passed for run in runs)
            good &= full == len(runs) and failed == named == len(wrong_ones)
            table.add_row(
                lab.id,
                runs[0].environment.device,
                f"{full}/{len(runs)} full",
                ", ".join(f"{dtype} {share:.3f}" for dtype, share in used.items()),
                f"{failed}/{len(wrong_ones)} failed",
                f"{named}/{len(wrong_ones)}",
            )
    Console().print(table)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
