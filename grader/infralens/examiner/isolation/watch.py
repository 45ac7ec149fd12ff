"""One watcher over all candidates: who takes too much, or grows too many, is killed."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator, Set

import psutil

from infralens.examiner.isolation import tree
from infralens.examiner.isolation.killing import freeze_and_kill
from infralens.examiner.memory import shared

MAX_PROCESSES = 64
WATCH_SECONDS = 0.05
FULL_SECONDS = 2.0  # between looks with psutil, which no child escapes
LOOKS_EACH = 5  # one of so many asks for shared memory too, which takes longer


class Watch:
    """What one submission's processes may take, and the verdict on them."""

    def __init__(self, roots: frozenset[int], watcher: Watcher) -> None:
        self.roots, self.watcher = roots, watcher
        self.most_bytes: int | None = None
        self.most_processes = MAX_PROCESSES
        self.verdict: str | None = None
        self.extra_mb = 0
        self.in_view = False
        self.unseen: Set[int] = frozenset()

    def limit(self, extra_mb: int, *, in_view: bool = False) -> None:
        """From here the tree may grow by `extra_mb` MiB; `in_view`: none may hide what it holds."""
        self.extra_mb, self.in_view = extra_mb, in_view
        family = self.watcher.family(self)
        taken = tree.resident(family) + shared.beyond_resident(family)
        self.most_bytes = taken + extra_mb * 2**20
        self.watcher.begin()

    def allow_no_more_processes(self) -> None:
        """From here the tree may not grow."""
        self.most_processes = len(self.watcher.family(self))

    def stop(self) -> None:
        self.watcher.forget(self)

    @property
    def limited(self) -> bool:
        return self.most_bytes is not None and self.verdict is None

    def over_memory(self, used: int) -> str | None:
        if self.most_bytes is not None and used > self.most_bytes:
            return f"used more than {self.extra_mb:,} MiB of memory"
        return None

    def over_view(self, hidden: Set[int]) -> str | None:
        """Seen twice: who is just beginning or ending hides for an instant."""
        before, self.unseen = self.unseen, hidden
        if self.in_view and before & hidden:
            return "hid what it holds in memory"
        return None

    def over_number(self, count: int) -> str | None:
        if count <= self.most_processes:
            return None
        few = self.most_processes < MAX_PROCESSES
        more = "another process" if few else f"more than {MAX_PROCESSES} processes"
        return f"started {more}"


class Watcher:
    """Looks at every candidate of ours in one thread, as long as one is limited.

    A submission's processes are its candidate's tree, and whatever else descends from us and is
    nobody's: orphans are handed to us (see `adopt_orphans`). `launchers` gives the processes that
    start candidates.
    """

    def __init__(self, launchers: Callable[[], Set[int]] = frozenset) -> None:
        self.launchers = launchers
        self._watches: tuple[Watch, ...] = ()
        self._starting = 0
        self._lock = threading.Lock()
        self._looking = False

    @contextlib.contextmanager
    def starting(self) -> Iterator[None]:
        """In here a new process may be anyone's: it is not taken for a stray."""
        with self._lock:
            self._starting += 1
        try:
            yield
        finally:
            with self._lock:
                self._starting -= 1

    def over(self, *roots: int) -> Watch:
        """A watch over these processes and theirs, which begins with its first limit."""
        watch = Watch(frozenset(roots), self)
        with self._lock:
            self._watches = (*self._watches, watch)
        return watch

    def forget(self, watch: Watch) -> None:
        with self._lock:
            self._watches = tuple(known for known in self._watches if known is not watch)

    def begin(self) -> None:
        """See to it that somebody looks."""
        with self._lock:
            if self._looking:
                return
            self._looking = True
        threading.Thread(target=self._look_on, daemon=True).start()

    def _look_on(self) -> None:
        full = time.monotonic() + FULL_SECONDS
        for number in itertools.count():
            time.sleep(WATCH_SECONDS)
            with self._lock:
                self._looking = any(watch.limited for watch in self._watches)
                if not self._looking:
                    return
            # A lent function at work leaves little room, and a process may end at any moment.
            with contextlib.suppress(MemoryError, psutil.Error, OSError):
                sure = time.monotonic() > full
                self.look(sure=sure, thorough=number % LOOKS_EACH == 0)
                if sure:
                    full = time.monotonic() + FULL_SECONDS

    def look(self, *, sure: bool = False, thorough: bool = False) -> None:
        """Judge every watch by what descends from us now.

        `sure`: with a look that misses none; `thorough`: shared memory that is not resident counts,
        and who hides it is seen.
        """
        families = self._families(sure)
        for watch, family in families.items():
            if not watch.limited:
                continue
            verdict = None
            if watch.over_number(len(family)):  # asked first: what hundreds hold takes seconds
                # Looked at again: what ends at this moment is nobody's for an instant.
                verdict = watch.over_number(len(self.family(watch)))
            if verdict is None:
                used = tree.resident(family) + (shared.beyond_resident(family) if thorough else 0)
                verdict = watch.over_memory(used)
            if verdict is None and thorough and watch.in_view:
                verdict = watch.over_view(shared.hidden(family))
            if verdict is not None:
                watch.verdict = verdict
                freeze_and_kill(self.family(watch) | family)

    def family(self, watch: Watch) -> frozenset[int]:
        """One watch's processes, none missed."""
        return self._families(True).get(watch, frozenset())

    def _families(self, sure: bool) -> dict[Watch, frozenset[int]]:
        """Each watch's processes."""
        children = tree.children_of(os.getpid(), sure=sure)
        with self._lock:  # asked only now: one that was started a moment ago is known by now
            watches, starting = self._watches, self._starting
        families = {
            watch: watch.roots.union(*(tree.below(root, children) for root in watch.roots))
            for watch in watches
        }
        strays: set[int] = set()
        if not starting:
            strays = tree.below(os.getpid(), children).difference(
                self.launchers(), *families.values()
            )
        return {watch: frozenset(family | strays) for watch, family in families.items()}
