"""`infralens check`: several labs proven, with progress shown."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Lock

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from infralens.authoring.proofs import Proof
from infralens.authoring.runs import prove
from infralens.authoring.texts import current_stub
from infralens.labs import Lab
from infralens.regular import write_whole
from infralens.stubs import MarkerError


def write_stubs(labs: Sequence[Lab]) -> Iterator[Path]:
    """Write each stub that is not what its solution makes; gives the files written."""
    for lab in labs:
        if lab.solution is None or not lab.solution.is_file():
            continue
        try:
            stub = current_stub(lab)
        except (MarkerError, SyntaxError, UnicodeDecodeError):  # told among the faults
            continue
        if not lab.stub.is_file() or lab.stub.read_bytes() != stub.encode():
            write_whole(lab.stub, stub)
            yield lab.stub


def check_labs(
    labs: Sequence[Lab],
    *,
    seeds: int,
    jobs: int | None,
    console: Console,
    despite_texts: bool = False,
    nameless: bool = False,
) -> list[Proof]:
    """The proof of each lab.

    With `nameless`, the wrong answers that have no name are judged as well.
    Where a lab's texts have faults it is not graded, unless `despite_texts`.
    """
    with ExitStack() as stack:
        progress = stack.enter_context(
            Progress(
                SpinnerColumn(),
                TextColumn("{task.fields[lab]}"),
                TextColumn("{task.description}"),
                TimeElapsedColumn(),
                console=console,
                disable=not console.is_terminal,
            )
        )
        threads = jobs or max(1, min(len(labs), (os.cpu_count() or 2) // 2))
        pool = stack.enter_context(ThreadPoolExecutor(threads))
        lock = Lock()  # diffusers and transformers import their modules late, and not from threads

        def proven(lab: Lab) -> Proof:
            task = progress.add_task("waiting", total=None, lab=lab.short)
            proof = prove(
                lab,
                seeds=seeds,
                on_step=lambda step: progress.update(task, description=step),
                despite_texts=despite_texts,
                nameless=nameless,
                one_at_a_time=lock,
            )
            progress.update(task, description=f"{len(proof.faults)} faults", total=1, completed=1)
            return proof

        return list(pool.map(proven, labs))
