"""Candidates in stock, and what each kind of them is started with."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infralens.examiner.errors import UnavailableError
from infralens.examiner.isolation.bubblewrap import unavailable
from infralens.examiner.isolation.entered import EnteringLauncher
from infralens.examiner.isolation.folders import remove
from infralens.examiner.isolation.killing import kill_descendants
from infralens.examiner.isolation.launch import (
    DirectLauncher,
    Launcher,
    SandboxLauncher,
    TemplateLauncher,
    template_lacks,
)
from infralens.examiner.isolation.process import CandidateProcess, candidate_environment
from infralens.examiner.isolation.watch import Watcher


@dataclass(frozen=True)
class Setting:
    """What a candidate is started with; a spare serves only grades of its own setting.

    A grade needs so many `processes`.
    """

    isolation: str
    masked: tuple[str, ...]
    loaded: tuple[str, ...]
    cuda: bool
    processes: int = 1


def setting_of(request: dict[str, Any]) -> Setting:
    """The setting that a request needs. `auto` is the sandbox where there is one."""
    wanted = request["isolation"]
    reason = None if wanted == "process" else unavailable()  # to find out takes a moment
    loaded, processes = tuple(request["loaded"]), int(request["processes"])
    if wanted == "sandbox" and reason is not None:
        raise UnavailableError(f"There is no sandbox here: {reason}. Use --isolation process.")
    if wanted == "process" or reason is not None:
        return Setting("process", (), loaded, False, processes)
    cuda = request["device"] != "cpu" and Path("/dev/nvidiactl").exists()
    return Setting("sandbox", tuple(request["masked"]), loaded, cuda, processes)


class Spares:
    """Candidates started ahead of need: importing torch takes two seconds, taking one none."""

    def __init__(self, *, more_will_follow: bool) -> None:
        self.more_will_follow = more_will_follow
        self.launchers: dict[Setting, Launcher] = {}
        self.started: list[CandidateProcess] = []
        self.watcher = Watcher(self.launcher_pids)
        self.waiting: dict[Setting, list[CandidateProcess]] = {}

    def begin(self, setting: Setting) -> None:
        """Have what takes long begin now: the caller has something to import meanwhile."""
        if setting not in self.launchers:
            self.launchers[setting] = self._launcher(setting)
        if not self.launchers[setting].forks:
            self._stock(setting, 1)  # from a template it would be waited for

    def prepare(self, setting: Setting) -> None:
        """Let as many wait for this setting as a grade needs; those of others are given up.

        Of a template one is enough: another is there at once.
        """
        for other in [known for known in self.waiting if known != setting]:
            for process in self.waiting.pop(other):
                process.kill()
        launcher = self.launchers.get(setting)
        self._stock(setting, 1 if launcher and launcher.forks else setting.processes)

    def _stock(self, setting: Setting, count: int) -> None:
        waiting = self.waiting.setdefault(setting, [])
        while len(waiting) < count:
            waiting.append(self._started(setting))

    def take(self, setting: Setting) -> CandidateProcess:
        waiting = self.waiting.get(setting)
        process = waiting.pop(0) if waiting else self._started(setting)
        if not process.alive:
            process.kill()
            process = self._started(setting)
        return process

    def _started(self, setting: Setting) -> CandidateProcess:
        with self.watcher.starting():  # a watch that looks meanwhile sees no stray
            if setting not in self.launchers:
                self.launchers[setting] = self._launcher(setting)
            process = CandidateProcess(self.launchers[setting], self.watcher)
            self.started.append(process)
        return process

    def sweep(self) -> None:
        """Leave nothing of a submission: no process, and no folder that one made again."""
        processes = [each for some in self.waiting.values() for each in some]
        waiting = frozenset(root for each in processes for root in each.process.roots)
        kill_descendants(spare=waiting, alone=self.launcher_pids())
        for process in self.started:
            if process.ended and (process.folder.exists() or process.folder.is_symlink()):
                remove(process.folder)
        self.started = [process for process in self.started if not process.ended]

    def _launcher(self, setting: Setting) -> Launcher:
        several = self.more_will_follow or setting.processes > 1
        forked = several and template_lacks() is None
        environment = candidate_environment(Path(tempfile.gettempdir()))
        if setting.isolation == "sandbox":
            if forked and not setting.cuda:  # what a driver opens is no fork's
                return EnteringLauncher(environment, setting.masked, setting.loaded)
            return SandboxLauncher(setting.masked, cuda=setting.cuda, loaded=setting.loaded)
        if forked:
            return TemplateLauncher(environment, setting.loaded)
        return DirectLauncher(setting.loaded)

    def launcher_pids(self) -> frozenset[int]:
        """Processes of the launchers themselves, which outlive a grade."""
        return frozenset(pid for each in self.launchers.values() for pid in each.pids())

    def remove_folders(self) -> None:
        """Remove what the candidates wrote, for a signal handler: it takes no lock of theirs."""
        for process in self.started:
            remove(process.folder)

    def close(self) -> None:
        self.waiting.clear()
        for process in self.started:
            process.kill()
        for launcher in self.launchers.values():
            launcher.close()
