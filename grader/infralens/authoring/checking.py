"""`infralens check`: several labs proven, with progress shown, solutions from here or from git."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from infralens.authoring.proofs import Proof
from infralens.authoring.runs import prove
from infralens.authoring.texts import current_stub
from infralens.labs import Lab
from infralens.regular import write_whole
from infralens.revisions import MOST_FOLDER_BYTES, RevisionError, write_folders_at


class SolutionsUnavailableError(Exception):
    """The git revision that was named holds no solutions; the text says what git said."""


def write_stubs(labs: Sequence[Lab]) -> Iterator[Path]:
    """Write each stub that is not what its solution makes; gives the files written."""
    for lab in labs:
        if lab.solution is None or not lab.solution.is_file():
            continue
        stub = current_stub(lab)
        if not lab.stub.is_file() or lab.stub.read_text(encoding="utf-8") != stub:
            write_whole(lab.stub, stub)
            yield lab.stub


def check_labs(
    labs: Sequence[Lab],
    *,
    ref: str | None,
    seeds: int,
    jobs: int | None,
    console: Console,
    despite_texts: bool = False,
    nameless: bool = False,
) -> list[Proof]:
    """The proof of each lab. With `ref`, solutions and stubs are those of that git revision.

    With `nameless`, the wrong answers that have no name are judged as well.
    Where a lab's texts have faults it is not graded, unless `despite_texts`.
    """
    with ExitStack() as stack:
        if ref is not None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="infralens-ref-")))
            labs = [_at_ref(lab, ref, folder) for lab in labs]
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

        def proven(lab: Lab) -> Proof:
            task = progress.add_task("waiting", total=None, lab=lab.short)
            proof = prove(
                lab,
                seeds=seeds,
                on_step=lambda step: progress.update(task, description=step),
                despite_texts=despite_texts,
                nameless=nameless,
            )
            progress.update(task, description=f"{len(proof.faults)} faults", total=1, completed=1)
            return proof

        return list(pool.map(proven, labs))


def _at_ref(lab: Lab, ref: str, folder: Path) -> Lab:
    root = lab.place.exercises.parent
    if not (folder / "solutions").is_dir():
        try:
            write_folders_at(
                root, ref, ("solutions", "exercises"), folder, most_bytes=MOST_FOLDER_BYTES
            )
        except RevisionError as error:
            raise SolutionsUnavailableError(str(error)) from None
    place = replace(lab.place, exercises=folder / "exercises", solutions=folder / "solutions")
    return replace(lab, place=place)
