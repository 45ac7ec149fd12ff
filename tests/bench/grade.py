"""How long a grade takes, against only importing what it needs. Run: python tests/bench/grade.py"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from infralens.labs import find_lab, find_labs

ROUNDS = 7
IMPORTS = "import torch; from diffusers import EulerDiscreteScheduler"


def seconds(command: list[str]) -> float:
    """The wall time of one run of a command that must succeed."""
    begun = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - begun


def main() -> None:
    """Alternate the two commands, so that a machine that slows down slows both."""
    solution = find_lab("lab-03", find_labs()).solution
    grade = [sys.executable, "-m", "infralens.cli", "grade", "lab-03", "--file", str(solution)]
    baseline = [sys.executable, "-c", IMPORTS]
    seconds(baseline), seconds(grade)  # warm the disk cache
    pairs = [(seconds(baseline), seconds(grade)) for _ in range(ROUNDS)]
    imports, grades = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"imports alone   {imports:6.2f} s   (median of {ROUNDS})")
    print(f"grading lab-03  {grades:6.2f} s")
    print(f"ratio           {grades / imports:6.2f}")


if __name__ == "__main__":
    main()
