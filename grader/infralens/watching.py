"""`infralens watch`: one warm examiner, one loop over saves."""

from __future__ import annotations

import contextlib
from pathlib import Path

from rich.console import Console
from watchfiles import watch

from infralens import workspace
from infralens.grading import Examiner, UnreadableError, examiner, grade
from infralens.labs import Lab
from infralens.show.terminal import show_report
from infralens.workspace import Workspace

SETTLE_MS = 50  # editors write a file in several steps


def watch_lab(lab: Lab, here: Workspace, console: Console) -> None:
    """Grade the learner's file now and after every save, until Ctrl-C."""
    path = here.file(lab)
    folder = path.parent
    if not folder.is_dir():
        raise UnreadableError(f"There is no folder {folder}.")
    with examiner(serve=True) as warm, contextlib.suppress(KeyboardInterrupt):
        _grade_once(lab, path, here, console, warm)
        for changes in watch(folder, debounce=SETTLE_MS, step=20):
            if any(Path(name).name == path.name for _, name in changes):
                _grade_once(lab, path, here, console, warm)


def _grade_once(lab: Lab, path: Path, here: Workspace, console: Console, warm: Examiner) -> None:
    console.clear()
    console.print(f"grading {path.name} …", style="dim")
    try:
        report = grade(lab, path, isolation="auto", using=warm)
    except UnreadableError as error:
        console.print(str(error))
        return
    console.clear()
    show_report(report, console, lab.short)
    complaint = workspace.record(here, report)
    if complaint:
        console.print(complaint)
    console.print(f"\nwatching {path.name}; Ctrl-C ends", style="dim")
