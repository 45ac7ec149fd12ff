"""Jobs done on this machine, a thread and a warm examiner each."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Sequence

from infralens.course.batch.judging import Job, Judge, Verdict, judge
from infralens.examiner.errors import UnreadableError
from infralens.grading import Examiners

Load = Callable[[Job], bytes]
Done = tuple[Job, Verdict | BaseException]


def judged_here(
    jobs: Sequence[Job], load: Load, at_once: int
) -> Generator[tuple[Job, Verdict], None, None]:
    """Each job and its verdict, as they come. Closed early, it ends every examiner.

    What a job raises is raised here, as UnavailableError where the isolation is not there.
    """
    waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
    for job in jobs:
        waiting.put(job)
    done: queue.SimpleQueue[Done] = queue.SimpleQueue()
    stop, judges, examiners = threading.Event(), list[Judge](), Examiners()

    def work() -> None:
        job: Job | None = None
        try:
            with judge(examiners) as own:
                judges.append(own)
                while not stop.is_set():
                    job = waiting.get_nowait()
                    done.put((job, _verdict(own, job, load)))
        except queue.Empty:
            return
        except BaseException as error:
            done.put((job or jobs[0], error))

    threads = [threading.Thread(target=work) for _ in range(min(at_once, len(jobs)))]
    try:
        for thread in threads:
            thread.start()
        for _ in jobs:
            job, verdict = done.get()
            if isinstance(verdict, BaseException):
                raise verdict
            yield job, verdict
    finally:
        stop.set()
        while any(thread.is_alive() for thread in threads):
            for own in judges:  # again and again: one may just be starting another examiner
                own.close()
            for thread in threads:
                if thread.ident is not None:
                    thread.join(0.1)


def _verdict(own: Judge, job: Job, load: Load) -> Verdict:
    try:
        data = load(job)
    except UnreadableError as error:
        return Verdict(None, str(error))
    return own.verdict(job, data)
