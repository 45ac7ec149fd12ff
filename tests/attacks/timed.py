"""An examiner in a hurry (see hurried.py) that writes down how long each candidate takes to start.

A start is not the submission's time, and on a busy machine no two take the same.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import hurried
from infralens.examiner import serving
from infralens.examiner.processes import CandidateProcess

STARTS = "INFRALENS_STARTS"  # the file


def prepare_and_time() -> None:
    """As the examiner does at its first request."""
    hurried.prepare_and_hurry()
    from infralens.examiner.candidates import Link

    begin = Link._begin

    def timed(link: Link) -> CandidateProcess:
        started = time.monotonic()
        try:
            return begin(link)
        finally:
            with Path(os.environ[STARTS]).open("a", encoding="ascii") as record:
                record.write(f"{time.monotonic() - started:.3f}\n")

    Link._begin = timed  # type: ignore[method-assign]  # that is what this examiner is for


if __name__ == "__main__":
    serving._prepare = prepare_and_time
    serving.main()
