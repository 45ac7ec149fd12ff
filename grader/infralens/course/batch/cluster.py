"""Jobs done on many machines, through a scheduler of Dask's.

Dask carries the work; who does what is decided here, so that a worker that is lost, one that may
not grade and a scheduler that begins anew cost no verdict and double none. A job is in one place at
a time, and its verdict is taken once.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import dask
from distributed import Client, Future
from distributed.comm import parse_address, parse_host_port
from distributed.comm.registry import get_backend

from infralens.course.batch import worker as there
from infralens.course.batch.judging import Job, Verdict, void
from infralens.course.batch.local import Load
from infralens.course.kit import kit_of
from infralens.examiner.errors import UnavailableError, UnreadableError

CONNECT_SECONDS = 5.0
PATIENCE_SECONDS = 60.0  # for a scheduler that is gone, or one that has no worker
UNFIT_SECONDS = 20.0  # for a worker that may grade, where only others are
LOOK_SECONDS = 0.5  # from one look at the workers to the next
POLL_SECONDS = 0.02
MOST_LOSSES = 2  # workers that a submission may take with it
Tell = Callable[[str], None]


class _LostError(Exception):
    """The scheduler cannot be reached."""


def judged_there(
    jobs: Sequence[Job],
    load: Load,
    *,
    address: str,
    extra: Sequence[Path] = (),
    at_once: int | None = None,
    tell: Tell = lambda sentence: None,
) -> Generator[tuple[Job, Verdict], None, None]:
    """Each job and its verdict, as they come. UnavailableError where nobody can do them.

    `extra` are folders of further labs, which workers must have too. Workers that come later help.
    """
    work = _Work(deque(jobs), load, at_once, tell)
    wish = _Wish(jobs, extra)
    patience = 2 * CONNECT_SECONDS
    while work.left:
        with _connected(address, patience) as client:
            try:
                yield from _through(client, work, wish, address)
            except _LostError:
                tell(f"The scheduler at {address} is gone; waiting for it.")
                work.all_back()
        patience = PATIENCE_SECONDS


class _Wish:
    """What a worker must be to grade: our kit of every lab, and the isolation."""

    def __init__(self, jobs: Sequence[Job], extra: Sequence[Path]) -> None:
        labs = {job.lab.id: job.lab for job in jobs}
        self.kits = {name: kit_of(lab) for name, lab in labs.items()}
        self.extra = [str(path) for path in extra]
        self.isolation = jobs[0].isolation if jobs else "sandbox"

    def judge(self, client: Client, address: str) -> str | None:
        """Why this worker may not grade; None when it is ready."""
        asked = (self.kits, self.extra, self.isolation)
        reason = client.run(there.begin, *asked, workers=[address], on_error="return")[address]
        if isinstance(reason, BaseException):
            return f"its InfraLens cannot be used: {type(reason).__name__}: {reason}"
        return None if reason is None else str(reason)


class _Work:
    """What is left to do, and where what is being done is being done."""

    def __init__(self, waiting: deque[Job], load: Load, at_once: int | None, tell: Tell) -> None:
        self.waiting, self.load, self.at_once, self.tell = waiting, load, at_once, tell
        self.flying: dict[Future, tuple[Job, str]] = {}
        self.losses: Counter[str] = Counter()

    @property
    def left(self) -> bool:
        return bool(self.waiting or self.flying)

    def room(self, slots: Mapping[str, int]) -> Iterator[str]:
        """A worker for each job that may be begun now."""
        used = Counter(address for _, address in self.flying.values())
        most = sum(slots.values()) if self.at_once is None else self.at_once
        for address, threads in slots.items():
            for _ in range(threads - used[address]):
                if len(self.flying) < most and self.waiting:
                    yield address

    def back(self, future: Future, reason: str) -> None:
        """A job that came to nothing waits again, before the others."""
        job, where = self.flying.pop(future)
        with suppress(Exception):
            future.cancel()
        self.waiting.appendleft(job)
        self.tell(f"No verdict on {job.path} from the worker at {where}: {reason}.")

    def all_back(self) -> None:
        """Nothing is being done any more: there is nobody to take it back from."""
        self.waiting.extendleft(job for job, _ in self.flying.values())
        self.flying.clear()

    def lost(self, future: Future, reason: str) -> Iterator[tuple[Job, Verdict]]:
        """A worker broke over a job: it waits again, unless it took too many with it."""
        job, _ = self.flying[future]
        self.losses[job.key] += 1
        self.back(future, reason)
        if self.losses[job.key] > MOST_LOSSES:
            self.waiting.remove(job)
            said = f"{self.losses[job.key]} workers were lost over it: {reason}"
            yield job, Verdict(void(job, said))


@contextmanager
def _connected(address: str, patience: float) -> Iterator[Client]:
    """A client. UnavailableError where no scheduler answers for so many seconds."""
    _require_address(address)
    quick = {"distributed.comm.timeouts.connect": f"{CONNECT_SECONDS}s"}
    with dask.config.set(quick), _silent():
        deadline = time.monotonic() + patience
        while True:
            try:
                client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
                break
            except OSError as error:
                if time.monotonic() > deadline:
                    reason = f"No scheduler answers at {address}: {error}"
                    raise UnavailableError(f"{reason.rstrip('.')}.") from None
                time.sleep(POLL_SECONDS)
        try:
            yield client
        finally:
            if client.status == "running":
                with suppress(Exception):
                    client.run(there.end, on_error="ignore")
            with suppress(Exception):
                client.close(timeout=1)


def _require_address(address: str) -> None:
    """UnavailableError for what is no address: a client that is made of one breaks noisily."""
    try:
        scheme, place = parse_address(address)
        get_backend(scheme)
        parse_host_port(place)
    except ValueError as error:
        example = "an address is like tcp://192.168.0.7:8786"
        raise UnavailableError(f"There is no scheduler at {address}: {error}; {example}.") from None


@contextmanager
def _silent() -> Iterator[None]:
    """What Dask logs of a lost connection is told in our words instead."""
    logger = logging.getLogger("distributed")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _through(
    client: Client, work: _Work, wish: _Wish, address: str
) -> Generator[tuple[Job, Verdict], None, None]:
    crew = _Crew()
    alone_since, next_look = time.monotonic(), 0.0
    while work.left:
        if time.monotonic() >= next_look:
            yield from _look(client, work, wish, crew)
            next_look = time.monotonic() + LOOK_SECONDS
        if crew.slots:
            alone_since = time.monotonic()
        elif time.monotonic() - alone_since > (UNFIT_SECONDS if crew.unfit else PATIENCE_SECONDS):
            raise UnavailableError(f"Nothing can be graded at {address}: {crew.why()}.")
        for where in work.room(crew.slots):
            job = work.waiting.popleft()
            try:
                data = work.load(job)
            except UnreadableError as error:
                yield job, Verdict(None, str(error))
                continue
            work.flying[_sent(client, job, data, where)] = (job, where)
        ended = [future for future in work.flying if future.status != "pending"]
        if client.status != "running":
            raise _LostError
        for future in ended:
            yield from _arrived(work, crew, future)
        time.sleep(POLL_SECONDS)


@dataclass(frozen=True)
class _Crew:
    """The workers by address: how many threads each has that may grade, or why it may not."""

    slots: dict[str, int] = field(default_factory=dict)
    unfit: dict[str, str] = field(default_factory=dict)

    def why(self) -> str:
        """Why none of them can do anything."""
        said = "; ".join(f"the worker at {where}: {reason}" for where, reason in self.unfit.items())
        return said or "it has no workers"


def _look(client: Client, work: _Work, wish: _Wish, crew: _Crew) -> Iterator[tuple[Job, Verdict]]:
    """See who has come and who has gone."""
    try:
        known = client.nthreads()
        for address in known.keys() - crew.slots.keys() - crew.unfit.keys():
            reason = wish.judge(client, address)
            if reason is None:
                crew.slots[address] = known[address]
            else:
                crew.unfit[address] = reason
                work.tell(f"The worker at {address} may not grade: {reason}.")
    except (OSError, KeyError) as error:  # a worker that went while it was asked comes up again
        if client.status != "running":
            raise _LostError from error
        return
    for address in (crew.slots.keys() | crew.unfit.keys()) - known.keys():
        crew.slots.pop(address, None)
        crew.unfit.pop(address, None)
        for future in [of for of, (_, where) in work.flying.items() if where == address]:
            yield from work.lost(future, "it ended")


def _sent(client: Client, job: Job, data: bytes, where: str) -> Future:
    asked: dict[str, Any] = {each.name: getattr(job, each.name) for each in fields(job)}
    asked["lab"] = job.lab.id
    # Never twice by Dask's own doing: what becomes of a job whose worker is lost is decided here.
    return client.submit(
        there.judged, asked, data, workers=[where], allow_other_workers=False, pure=False, retries=0
    )


def _arrived(work: _Work, crew: _Crew, future: Future) -> Iterator[tuple[Job, Verdict]]:
    """The verdict of a future that has ended. Without one, its job waits again."""
    job, where = work.flying[future]
    verdict: Verdict | None = None
    try:
        if future.status == "finished":
            verdict = future.result(timeout=CONNECT_SECONDS)
        elif future.status == "error":
            raise future.exception(timeout=CONNECT_SECONDS)
    except UnavailableError:
        raise
    except Exception as error:
        yield from work.lost(future, f"{type(error).__name__}: {error}")
        return
    if verdict is None:  # another worker came up at this address, or the scheduler began anew
        crew.slots.pop(where, None)
        work.back(future, "it ended, or forgot it")
    else:
        del work.flying[future]
        yield job, verdict
