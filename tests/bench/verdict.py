"""What a verdict costs, lab by lab. Run: python tests/bench/verdict.py [LAB …] [--rounds 7]

cold: a whole `infralens grade` of the solution; over: the same in times of the imports alone
(torch and diffusers). The other columns are warm, as in `infralens watch`, from a save to the whole
report: of the solution, of a wrong answer that is named, of a syntax error; and `first`, to the
verdict of the one todo that the wrong answer changed. All are medians, in seconds of the clock.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from infralens.examiner.isolation.bubblewrap import unavailable
from infralens.grading import Examiner, examiner, grade
from infralens.labs import Lab, find_lab, find_labs
from infralens.wrong import wrong_answers

ROUNDS = 7
IMPORTS = (sys.executable, "-c", "import torch, diffusers; diffusers.EulerDiscreteScheduler")
PAUSE_SECONDS = 4.0  # between two saves; a sandbox for the next one is put in stock meanwhile
SYNTAX_ERROR = "def broken(:\n"
COLUMNS = ("cold", "over", "solution", "named", "first", "syntax error")


@dataclass(frozen=True)
class Saved:
    """A text that a learner might save, and the todos that are asked for."""

    text: str
    todos: tuple[str, ...] | None = None


def seconds(act: Callable[[], object]) -> float:
    """The time by the clock that this takes."""
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


def cold(lab: Lab, isolation: str, rounds: int) -> tuple[float, float]:
    """A whole command, and its share over the imports alone; the two alternate."""
    options = ("--file", str(lab.solution), "--isolation", isolation)
    command = (sys.executable, "-m", "infralens", "grade", lab.id, *options)

    def run(arguments: Sequence[str]) -> float:
        return seconds(lambda: subprocess.run(arguments, check=True, capture_output=True))

    run(IMPORTS), run(command)  # the disk's cache is warm after these
    pairs = [(run(IMPORTS), run(command)) for _ in range(rounds)]
    imports, grades = (statistics.median(column) for column in zip(*pairs, strict=True))
    return grades, grades / imports


def warm(lab: Lab, isolation: str, rounds: int) -> list[float]:
    """From a save to its report: the solution, a named mistake, its todo alone, a syntax error."""
    assert lab.solution is not None
    solution = lab.solution.read_text(encoding="utf-8")
    known = next(wrong for wrong in wrong_answers(lab) if wrong.says)
    named = known.edited(solution)
    saves = (Saved(solution), Saved(named), Saved(named, (known.todo,)), Saved(SYNTAX_ERROR))
    with examiner(serve=True) as served, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / lab.file
        return [_median(lab, saved, path, isolation, served, rounds) for saved in saves]


def _median(
    lab: Lab, saved: Saved, path: Path, isolation: str, served: Examiner, rounds: int
) -> float:
    def save_and_grade() -> None:
        path.write_text(saved.text, encoding="utf-8")
        grade(lab, path, todos=saved.todos, isolation=isolation, using=served)

    save_and_grade()
    taken = []
    for _ in range(rounds):
        time.sleep(PAUSE_SECONDS)
        taken.append(seconds(save_and_grade))
    return statistics.median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lab", nargs="*")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    labs = find_labs()
    chosen = [find_lab(name, labs) for name in options.lab] or labs
    levels = ["process"] if unavailable() else ["process", "sandbox"]
    print(f"{'lab':18}{'level':9}" + "".join(f"{name:>14}" for name in COLUMNS))
    for lab in chosen:
        for level in levels:
            figures = [*cold(lab, level, options.rounds), *warm(lab, level, options.rounds)]
            print(f"{lab.id:18}{level:9}" + "".join(f"{f:14.2f}" for f in figures), flush=True)


if __name__ == "__main__":
    main()
