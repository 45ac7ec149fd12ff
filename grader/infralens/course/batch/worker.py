"""What happens on a worker of Dask's: it is looked at first, then judges with warm examiners."""

from __future__ import annotations

import queue
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from distributed import Worker, WorkerPlugin, get_worker

from infralens.course.batch.judging import Job, Judge, Verdict, judge
from infralens.course.kit import kit_of
from infralens.examiner.isolation.bubblewrap import unavailable
from infralens.grading import Examiners
from infralens.labs import BadLabError, Lab, find_labs

NAME = "infralens"


class Judges(WorkerPlugin):
    """The judges of one worker: as many as it has threads that ask."""

    name = NAME

    def __init__(self, labs: Mapping[str, Lab]) -> None:
        self.labs = labs
        self._free: queue.SimpleQueue[Judge] = queue.SimpleQueue()
        self._judges: list[Judge] = []
        self._examiners = Examiners()
        self._stack = ExitStack()

    @contextmanager
    def one(self) -> Iterator[Judge]:
        """A judge that nobody else asks meanwhile."""
        try:
            own = self._free.get_nowait()
        except queue.Empty:
            own = self._stack.enter_context(judge(self._examiners))
            self._judges.append(own)
        yield own
        self._free.put(own)  # one that broke is not asked again

    def teardown(self, worker: Worker) -> None:
        """End every examiner; a verdict that somebody waits for is void."""
        for own in self._judges:
            own.close()
        self._stack.close()


async def begin(
    kits: Mapping[str, str], extra: Sequence[str], isolation: str, dask_worker: Worker
) -> str | None:
    """Make a worker ready. Gives why it may not grade: another kit, or no sandbox."""
    try:
        labs = {lab.id: lab for lab in find_labs(map(Path, extra))}
    except BadLabError as error:
        return str(error)
    for name, kit in kits.items():
        own = kit_of(labs[name]) if name in labs else "none"
        if own != kit:
            return f"its kit for {name} is {own}, and ours is {kit}"
    if isolation == "sandbox" and (reason := unavailable()) is not None:
        return f"it has no sandbox ({reason}); --isolation process grades without"
    await dask_worker.plugin_add(plugin=Judges(labs), name=NAME)
    return None


async def end(dask_worker: Worker) -> None:
    """End the examiners of a worker."""
    if NAME in dask_worker.plugins:
        await dask_worker.plugin_remove(name=NAME)


def judged(asked: Mapping[str, Any], data: bytes) -> Verdict | None:
    """One verdict, in a thread of a worker. `asked` is a Job, its lab by name.

    None from a worker that was not made ready: it came in the place of another.
    """
    plugin = get_worker().plugins.get(NAME)
    if not isinstance(plugin, Judges):
        return None
    job = Job(**{**asked, "lab": plugin.labs[asked["lab"]]})
    with plugin.one() as own:
        return own.verdict(job, data)
