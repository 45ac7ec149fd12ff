"""One verdict: some bytes, a lab and a seed, given to an examiner that is warm."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from infralens.course.outputs import without_outputs
from infralens.examiner.errors import UnreadableError
from infralens.examiner.isolation.folders import HeldFolder
from infralens.examiner.service.protocol import Request
from infralens.examiner.service.result import void_report
from infralens.grading import Examiner, Examiners, examiner, grade
from infralens.labs import Lab
from infralens.report import Report


@dataclass(frozen=True)
class Job:
    """What to judge, and how. `key` says what the verdict rests on; the same key, the same verdict.

    `path` is what the submission is called where it was found.
    """

    key: str
    lab: Lab
    path: str
    sha256: str
    seed: int
    isolation: str
    device: str


@dataclass(frozen=True)
class Verdict:
    """What came of a job: a report, or why there was nothing to grade."""

    report: Report | None
    refused: str | None = None


def void(job: Job, reason: str) -> Report:
    """The report of a job that nobody could judge."""
    request = Request(
        lab=job.lab,
        submission=Path(job.path),
        todos=tuple(todo.id for todo in job.lab.todos),
        seed=job.seed,
        device=job.device,
        isolation=job.isolation,
    )
    return void_report(request, reason, time.monotonic())


@contextmanager
def judge(among: Examiners) -> Iterator[Judge]:
    """A judge for the block: an examiner that starts now, in the thread that asks.

    It is one `among` those of the other threads.
    """
    folder = HeldFolder()
    try:
        with examiner(serve=True, among=among) as warm:
            yield Judge(warm, folder)
    finally:
        folder.remove()


class Judge:
    """A warm examiner, and a place to lay a submission in."""

    def __init__(self, warm: Examiner, folder: HeldFolder) -> None:
        self._warm, self._folder, self._closed = warm, folder, False

    def verdict(self, job: Job, data: bytes) -> Verdict:
        """Grade it; once more with another examiner where the first one gave no verdict."""
        suffix = PurePosixPath(job.path).suffix.lower()
        name = job.lab.file if suffix == ".py" else PurePosixPath(job.lab.file).stem + suffix
        path = self._folder.path.resolve() / name
        path.write_bytes(without_outputs(data) if suffix == ".ipynb" else data)
        try:
            report = self._graded(job, path)
            if report.grader_error is not None and not self._closed:
                self._warm.close()  # the next grade has another
                report = self._graded(job, path)
        except UnreadableError as error:
            return Verdict(None, str(error).replace(str(path), job.path))
        finally:
            path.unlink(missing_ok=True)
        return Verdict(report)

    def _graded(self, job: Job, path: Path) -> Report:
        return grade(
            job.lab,
            path,
            seed=job.seed,
            device=job.device,
            isolation=job.isolation,
            using=self._warm,
        )

    def close(self) -> None:
        """End the examiner, whatever it is doing: a verdict that is waited for is then void."""
        self._closed = True
        self._warm.close()
