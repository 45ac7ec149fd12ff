"""grade(lab, submission) → Report. Asks the examiner process and believes only what it says."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from infralens.examiner.service.client import EXAMINER, Bounds, OnEvent
from infralens.examiner.service.client import Examiner as Examiner
from infralens.examiner.service.client import Examiners as Examiners
from infralens.examiner.service.log import OnPrint, as_wished
from infralens.examiner.service.protocol import Request
from infralens.examiner.service.protocol import Wishes as Wishes
from infralens.labs import Lab
from infralens.report import Report


@contextmanager
def examiner(
    *,
    serve: bool = False,
    program: Sequence[str] = EXAMINER,
    on_print: OnPrint = as_wished,
    among: Examiners | None = None,
    bounds: Bounds = Bounds(),  # noqa: B008  # frozen
) -> Iterator[Examiner]:
    """An examiner process for the block. `serve`: keep a candidate warm for the next grade.

    `on_print` is handed what the examiner prints. Who has several at once names them all `among`.
    """
    running = Examiner(serve=serve, program=program, on_print=on_print, among=among, bounds=bounds)
    try:
        yield running
    finally:
        running.close()


def grade(
    lab: Lab,
    submission: Path,
    *,
    todos: Sequence[str] | None = None,
    seed: int | None = None,
    device: str = "cpu",
    isolation: str = "process",
    wishes: Wishes = Wishes(),  # noqa: B008  # frozen
    on_event: OnEvent = lambda event: None,
    using: Examiner | None = None,
    alone: bool = False,
) -> Report:
    """Grade one submission against one lab. With `using`, in a process that is already warm.

    After one that is `alone`, among others at another level, no candidate is stocked.
    """
    request = Request(
        lab=lab,
        submission=submission,
        todos=tuple(todos) if todos else tuple(todo.id for todo in lab.todos),
        seed=secrets.randbits(32) if seed is None else seed,
        device=device,
        isolation=isolation,
        wishes=wishes,
        alone=alone,
    )
    if using is not None:
        return using.ask(request, on_event)
    with examiner() as started:
        return started.ask(request, on_event)


def rehearse(
    lab: Lab,
    name: str | None,
    todos: Sequence[str],
    *,
    using: Examiner,
    seed: int,
    wishes: Wishes = Wishes(),  # noqa: B008  # frozen
    sabotaged: bool = False,
) -> Report:
    """Grade the lab's wrong answer of this name (None: its solution) in the examiner itself.

    For proving labs. No answer has to cross to the examiner, so what is right here needs a grade;
    what is wrong is wrong. With `sabotaged`, the library's answers are slightly wrong.
    """
    assert lab.solution is not None
    request = Request(
        lab=lab,
        submission=lab.solution,
        todos=tuple(todos),
        seed=seed,
        device="cpu",
        isolation="process",
        wishes=wishes,
        rehearsed=name or "",
        sabotaged=sabotaged,
    )
    return using.ask(request)
