"""Examiners that stay warm, a thread each: verdicts are asked for ahead of their turn.

Each is kept by a process of its own: formgrader runs this in a Jupyter server, which has children
that are no candidates.
"""

from __future__ import annotations

import queue
import tempfile
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from infralens.course.kernel import Warm
from infralens.labs import Lab
from infralens.report import Report


@dataclass(frozen=True)
class Question:
    """What a verdict rests on. The same question has the same verdict."""

    lab: Lab
    labs: tuple[str, ...]  # folders in which it may lie besides the kit's own
    seed: int
    isolation: str
    name: str  # of the notebook's file
    text: str  # of the notebook

    @property
    def key(self) -> tuple[str, int, str, str]:
        return self.lab.id, self.seed, self.isolation, self.text


class Bench:
    """At most `at_once` examiners, each started when there is work for it and no other is free."""

    def __init__(self, at_once: int) -> None:
        self.at_once = at_once
        self._verdicts: dict[tuple[str, int, str, str], Future[Report]] = {}
        self._waiting: queue.SimpleQueue[tuple[Question, Future[Report]] | None]
        self._waiting = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._examiners: list[Warm] = []

    def ask(self, question: Question) -> None:
        """Have this answered, unless it is being answered already."""
        if question.key in self._verdicts:
            return
        verdict = self._verdicts[question.key] = Future[Report]()
        self._waiting.put((question, verdict))
        unanswered = sum(not known.done() for known in self._verdicts.values())
        if len(self._threads) < min(self.at_once, unanswered):
            thread = threading.Thread(target=self._work, daemon=True)
            self._threads.append(thread)
            thread.start()

    def report(self, question: Question) -> Report:
        """The verdict, waited for. What kept it from being made is raised."""
        self.ask(question)
        try:
            return self._verdicts[question.key].result()
        finally:
            del self._verdicts[question.key]  # a regrade is another grade

    def close(self) -> None:
        """End every examiner; another question starts others. What is being judged is given up."""
        threads, self._threads = self._threads, []
        for _ in threads:
            self._waiting.put(None)
        examiners, self._examiners = self._examiners, []
        for own in examiners:
            own.close()

    def _work(self) -> None:
        own: Warm | None = None
        while (work := self._waiting.get()) is not None:
            question, verdict = work
            try:
                if own is None:
                    own = Warm()
                    self._examiners.append(own)
                verdict.set_result(_judged(question, own))
            except BaseException as error:
                verdict.set_exception(error)


def _judged(question: Question, own: Warm) -> Report:
    """The examiner's report. NoVerdictError where there is none."""
    with tempfile.TemporaryDirectory(prefix="infralens-course-") as folder:
        path = Path(folder).resolve() / question.name
        path.write_text(question.text, encoding="utf-8")
        return own.ask(
            {
                "lab": question.lab.id,
                "labs": list(question.labs),
                "file": str(path),
                "todos": [todo.id for todo in question.lab.todos],
                "tells": "everything",
                "seed": question.seed,
                "isolation": question.isolation,
                "device": "cpu",
            }
        )
