"""The suites that this process has imported and collected, until a file of one is edited."""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the service imports this before pytest, which takes its time
    from infralens.examiner.run.cases import Case

State = dict[str, tuple[int, int]]  # of each file: when it was changed, and its size


class ImportedSuites:
    """Owned by the service. A pytest plugin too: what a collection imported is frozen after it."""

    def __init__(self) -> None:
        self._states: dict[Path, State] = {}
        self._cases: dict[Path, tuple[Case, ...]] = {}
        self._frozen: set[str] = set()

    def refresh(self, suite: Path) -> None:
        """Before a run: forget what stands in the way of importing this suite as it is now.

        A helper counts as the checks do: one beside them, or one that several suites share.
        """
        shared = (*suite.parent.glob("*.py"), *suite.parents[1].glob("*.py"))
        state = {str(path): _state(path) for path in (*suite.rglob("*.py"), *shared)}
        known = self._states.get(suite)
        if known is not None and known != state:
            _forget(known | state)
            self._cases.pop(suite, None)
        self._states[suite] = state
        for file in _forget_namesakes(suite, state):
            self._cases.pop(file.parent, None)  # its functions import their helpers by name

    def cases_of(self, suite: Path) -> tuple[Case, ...] | None:
        """Its cases, where it was collected before and pytest is not needed to run them."""
        return self._cases.get(suite)

    def keep(self, suite: Path, cases: Iterable[Case]) -> None:
        """What a whole collection of it found, for as long as no file of it is edited."""
        self._cases[suite] = tuple(cases)

    def pytest_collection_finish(self) -> None:
        """torch and diffusers are large: collecting them again and again is the cost.

        Only after an import, since with it freezes the session, which then nothing can collect.
        """
        gc.collect()
        imported = sys.modules.keys() - self._frozen
        if imported:
            gc.freeze()
            self._frozen.update(imported)


def _state(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size


def _forget(files: State) -> None:
    for name, module in list(sys.modules.items()):
        if getattr(module, "__file__", None) in files:
            del sys.modules[name]
    for file in files:  # Python tells an edit within a second from none by the size alone
        with contextlib.suppress(OSError, NotImplementedError):
            Path(importlib.util.cache_from_source(file)).unlink()
    importlib.invalidate_caches()


def _forget_namesakes(suite: Path, files: State) -> list[Path]:
    """pytest knows a module by the name of its file or folder: another lab's of that name goes."""
    ours = {suite.name, *(path.stem for path in suite.glob("test_*.py"))}
    gone = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name.partition(".")[0] in ours and file not in files:
            del sys.modules[name]
            gone += [Path(file)] if file else []
    return gone
