"""A process that keeps an examiner warm for a kernel: a question a line in, an answer a line out.

The kernel has none itself: an examiner's owner keeps its memory private, adopts orphans and ends
what is left of candidates, and a kernel has processes of its own.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

from infralens.examiner.errors import UnavailableError, UnreadableError
from infralens.grading import Examiner, Wishes, examiner, grade
from infralens.labs import find_lab, find_labs


def answer(question: dict[str, Any], warm: Examiner) -> dict[str, Any]:
    """The answer to one question: a report, or a sentence why there is none."""
    labs = find_labs(Path(folder) for folder in question["labs"])
    try:
        report = grade(
            find_lab(question["lab"], labs),
            Path(question["file"]),
            todos=question["todos"],
            seed=question.get("seed"),
            device=question.get("device", "auto"),
            isolation=question.get("isolation", "auto"),
            wishes=Wishes(naming="none" if question["tells"] == "points" else "full"),
            using=warm,
        )
    except (UnreadableError, UnavailableError) as error:
        return {"refused": str(error)}
    return {"report": report.to_json()}


def main() -> None:
    """Answer until the kernel is gone."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    out, sys.stdout = sys.stdout, sys.stderr  # answers have the pipe for themselves
    with examiner(serve=True) as warm:
        for line in sys.stdin:
            print(json.dumps(answer(json.loads(line), warm)), file=out, flush=True)


if __name__ == "__main__":
    main()
