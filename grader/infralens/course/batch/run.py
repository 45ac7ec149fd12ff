"""A class graded into a folder: what is done there already stays, the rest is done and written."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from filelock import FileLock, Timeout

from infralens import __version__
from infralens.course.assigned import Assigned, assigned_in
from infralens.course.batch.finding import Found, Submission
from infralens.course.batch.judging import Job, Verdict
from infralens.course.batch.local import Load
from infralens.course.batch.summary import write_summary
from infralens.course.code import code_digest
from infralens.course.kit import kit_of
from infralens.course.mixed_up import lab_named_in, of_another_lab
from infralens.course.outputs import without_outputs
from infralens.course.record import Assignment, Record, read_record, write_record
from infralens.course.results import (
    Result,
    key_of,
    read_result,
    read_results,
    write_result,
)
from infralens.course.tally import Row, row_of
from infralens.examiner.errors import UnreadableError
from infralens.labs import Lab

RESULTS = "results"
Judged = Callable[[Sequence[Job], Load], Generator[tuple[Job, Verdict], None, None]]


class BusyError(Exception):
    """Somebody else is grading into the same folder."""


class ChangedError(UnreadableError):
    """A file is another one than when the work began."""


@dataclass(frozen=True)
class Handed:
    """A submission that was read, and what its verdict will rest on."""

    submission: Submission
    code: str
    kit: str
    job: Job
    remark: str

    def result(self, verdict: Verdict) -> Result:
        entry = self.submission.entry
        report = verdict.report
        return Result(
            learner=self.submission.learner,
            assignment=self.submission.assignment.name,
            lab=self.submission.assignment.lab.id,
            file=entry.path,
            sha256=self.job.sha256,
            code=self.code,
            key=self.job.key,
            kit=self.kit,
            report=None if report is None else replace(report, submission=entry.path),
            refused=verdict.refused,
            remark=self.remark,
        )


@dataclass(frozen=True)
class Plan:
    """What is left to do: the learners whose verdict each job will be, by the job's key."""

    waiting: dict[str, list[Handed]]
    done: int

    @property
    def jobs(self) -> tuple[Job, ...]:
        return tuple(handed[0].job for handed in self.waiting.values())


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """Nobody else grades into this folder for the block. BusyError where somebody does.

    What an earlier run was killed in the middle of writing is removed.
    """
    out.mkdir(parents=True, exist_ok=True)
    lock = FileLock(out / ".lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise BusyError(f"Another run is grading into {out}; wait for it, or end it.") from None
    try:
        for half in (out / RESULTS).glob("*/.*.json.*"):
            half.unlink(missing_ok=True)
        yield
    finally:
        lock.release()


def fix_seeds(out: Path, found: Found, labs: Sequence[Lab], seed: int | None) -> dict[str, int]:
    """The seed of each assignment, recorded in `out` so that another run repeats every point.

    A course's own holds; then `seed`; then what an earlier run into this folder recorded.
    """
    assigned_in(out, labs)  # which says so where a lab of it is not known here
    before = read_record(out)
    entries = dict(before.assignments) if before else {}
    drawn = next((entry.seed for entry in entries.values()), secrets.randbits(32))
    for each in {one.assignment.name: one.assignment for one in found.submissions}.values():
        own = each.seed if each.seed is not None else seed
        known = entries[each.name].seed if each.name in entries else drawn
        fixed = known if own is None else own
        entries[each.name] = Assignment(each.lab.id, fixed, "everything", dict(each.points))
    write_record(out, Record(__version__, entries))
    return {name: entry.seed for name, entry in entries.items()}


def plan(found: Found, seeds: Mapping[str, int], out: Path, isolation: str, device: str) -> Plan:
    """Read every submission; what has its verdict, or cannot be read, is done with.

    The same bytes are judged once, whoever handed them in.
    """
    waiting: dict[str, list[Handed]] = {}
    kits: dict[str, str] = {}
    done = 0
    for submission in found.submissions:
        lab = submission.assignment.lab
        if lab.id not in kits:
            kits[lab.id] = kit_of(lab)
        kit = kits[lab.id]
        try:
            data = submission.entry.read()
        except UnreadableError as error:
            write_result(out / RESULTS, _unread(submission, kit, str(error)))
            done += 1
            continue
        seed = seeds[submission.assignment.name]
        sha256 = hashlib.sha256(data).hexdigest()
        key = key_of(sha256, kit, lab.id, seed, isolation, device)
        job = Job(key, lab, submission.entry.path, sha256, seed, isolation, device)
        known = read_result(out / RESULTS, submission.assignment.name, submission.learner)
        if known is None or known.key != job.key or not known.final or known.report is None:
            waiting.setdefault(job.key, []).append(_handed(submission, data, kit, job))
            continue
        if known.file != submission.entry.path:  # the same file in another place
            write_result(out / RESULTS, replace(known, file=submission.entry.path))
        done += 1
    return Plan(waiting, done)


def _handed(submission: Submission, data: bytes, kit: str, job: Job) -> Handed:
    path, light = submission.entry.path, without_outputs(data)
    is_notebook = path.lower().endswith(".ipynb")
    remark = of_another_lab(lab_named_in(light), job.lab.id) if is_notebook else ""
    return Handed(submission, code_digest(light, path), kit, job, remark)


def _unread(submission: Submission, kit: str, reason: str) -> Result:
    return Result(
        learner=submission.learner,
        assignment=submission.assignment.name,
        lab=submission.assignment.lab.id,
        file=submission.entry.path,
        sha256="",
        code="",
        key="",
        kit=kit,
        report=None,
        refused=reason,
    )


def carry_out(plan: Plan, out: Path, judged: Judged, on_result: Callable[[Result], None]) -> None:
    """Do what is left and write each result as it comes."""

    def load(job: Job) -> bytes:
        first = plan.waiting[job.key][0]
        data = first.submission.entry.read()
        if hashlib.sha256(data).hexdigest() != job.sha256:
            raise ChangedError(f"{job.path} was changed while the class was graded; run it again.")
        return data

    with closing(judged(plan.jobs, load)) as verdicts:
        for job, verdict in verdicts:
            for handed in plan.waiting[job.key]:
                result = handed.result(verdict)
                write_result(out / RESULTS, result)
                on_result(result)


def rows_in(out: Path, assigned: Sequence[Assigned]) -> tuple[Row, ...]:
    """What lies in the folder by now, in rows, with the points of the course."""
    points = {each.name: each.points for each in assigned}
    results = read_results(out / RESULTS)
    return tuple(row_of(result, points.get(result.assignment, {})) for result in results)


def sum_up(out: Path, labs: Sequence[Lab], left: Sequence[tuple[str, str]]) -> tuple[Row, ...]:
    """Write the summary of all that lies in the folder, and give its rows."""
    rows = rows_in(out, assigned_in(out, labs) or ())
    write_summary(out, rows, left)
    return rows
