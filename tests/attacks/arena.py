"""The arena: sets one attack of the corpus at the grader and looks at what is left afterwards."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
import yaml

from infralens.authoring.runs import unpassed
from infralens.examiner.errors import UnreadableError
from infralens.examiner.isolation.bubblewrap import unavailable
from infralens.grading import Examiner, Wishes, examiner, grade
from infralens.labs import Lab, Place, find_labs, place_at, read_lab
from infralens.report import Report

HERE = Path(__file__).resolve().parent
CORPUS = HERE / "corpus"
# Names are looked for after a submission's time is over: that is not what it is measured by.
BRIEFLY = Wishes(naming="brief")
LONGEST_START_SECONDS = 20.0  # of what takes longer, the submission is the cause
KIT = CORPUS / "_kit.py"
KINDS = (
    "Ending the session",
    "Nothing to grade",
    "Never answering",
    "Taking too much",
    "Crashing",
    "Reaching the verdict",
    "Strange answers",
    "Stealing the answer",
    "Changing the question",
    "Remembering",
    "The channel",
    "Controls",
)
# Of these a suite sees nothing but that an answer is missing, so a small and quick one will do.
ABOUT_THE_MACHINERY = (
    "Ending the session",
    "Nothing to grade",
    "Never answering",
    "Taking too much",
    "Crashing",
    "Reaching the verdict",
    "The channel",
)
BREAKS = ("points", "crash", "hang", "leftovers")
# Short, so that hundreds of attacks take minutes; the limits themselves are what is tried.
LIMITS = {"call_seconds": 2, "lab_seconds": 8, "memory_mb": 1024}
FEW_TODOS = 2  # for attacks that stop the run: the first todo, and the first that has a class
GRACE_SECONDS = 2.0
SETTLE_SECONDS = 12.0
LOOK_SECONDS = 0.1
# A watch looks every few hundredths of a second: what is taken between two looks is forgiven.
ENDING = 0x4  # PF_EXITING
MOST_PROCESSES = 64 + 8  # a submission's, and the examiner's own
MOST_CANDIDATE_MB = 2000
MOST_EXAMINER_MB = 1500  # more than it holds at rest
MOST_REPORT_BYTES = 4_000_000
EXPECTED_NAMES = ("infralens-", "torchinductor_")
LARGE_BYTES = 200 * 2**20  # a process that has only torch loaded is not worth a closer look
MOST_LOOKED_INTO = 24  # of one family, in one look
MARKER = "INFRALENS_ATTACK"


@dataclass(frozen=True)
class Attack:
    """One file of the corpus: what its docstring says, and how it becomes a submission."""

    path: Path
    aim: str
    kind: str
    relies_on: str
    breaks: tuple[str, ...]
    level: str
    applies_to: tuple[str, ...]
    deserves: tuple[str, ...]
    builds: bool

    @property
    def name(self) -> str:
        return self.path.stem.removeprefix("build_")

    @property
    def is_control(self) -> bool:
        return self.kind == "Controls"

    def is_set_at(self, lab: Lab) -> bool:
        """Whether the lab is the place for it: the small one where the machinery is attacked, else
        one whose suite judges answers. A control stands beside both.
        """
        if self.applies_to:
            return lab.id in self.applies_to
        about_the_machinery = self.kind in ABOUT_THE_MACHINERY
        return self.is_control or about_the_machinery == (lab.track == "attacks")

    def deserved(self, lab: Lab, todos: Sequence[str]) -> int:
        """The points that the answers deserve, of those of `todos`."""
        earned = todos if self.deserves == ("all",) else self.deserves
        return sum(todo.points for todo in lab.todos if todo.id in earned and todo.id in todos)

    def build(self, lab: Lab, folder: Path) -> Path:
        """Make the submission in this folder."""
        assert lab.solution is not None
        stub = lab.stub.read_text(encoding="utf-8")
        text = self.path.read_text(encoding="utf-8")
        if not self.builds:
            path = folder / lab.file
            whole = "\n\n".join((stub, KIT.read_text(encoding="utf-8"), text))
            path.write_text(whole, encoding="utf-8")
            return path
        spec = importlib.util.spec_from_file_location(f"attack_{self.path.stem}", self.path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        build: Callable[[str, str, Path], Path] = module.build
        return build(stub, lab.solution.read_text(encoding="utf-8"), folder)


def read_attack(path: Path) -> Attack:
    """Read the docstring's first line and its `Name: value` lines."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    text = ast.get_docstring(tree) or ""
    lines = dict(re.findall(r"^([A-Z][\w ]+): (.+)$", text, flags=re.MULTILINE))
    return Attack(
        path=path,
        aim=text.splitlines()[0] if text else "",
        kind=lines.get("Kind", ""),
        relies_on=lines.get("Relies on", ""),
        breaks=tuple(lines.get("Breaks naive", "").replace(",", " ").split()),
        level=lines.get("Level", "process"),
        applies_to=tuple(lines.get("Applies to", "").replace(",", " ").split()),
        deserves=tuple(lines.get("Deserves", "").replace(",", " ").split()),
        builds=any(
            isinstance(node, ast.FunctionDef) and node.name == "build" for node in tree.body
        ),
    )


def read_corpus() -> tuple[Attack, ...]:
    """Every attack and control, in the order of their kinds."""
    files = (path for path in CORPUS.rglob("*.py") if not path.name.startswith("_"))
    found = (read_attack(path) for path in files)
    return tuple(sorted(found, key=lambda a: (KINDS.index(a.kind), a.path.name)))


def lab_for_attacks() -> Lab:
    """The small lab beside this file, which lends a function, an object and a module."""
    place = place_at(HERE / "lab")
    return read_lab(next(place.suites.glob("*/*/lab.yaml")), place)


def labs_with_solutions() -> tuple[Lab, ...]:
    """The labs that learners have, as far as a submission can be made for them."""
    known = find_labs()
    return tuple(lab for lab in known if lab.solution is not None and lab.solution.is_file())


def labs_to_attack() -> tuple[Lab, ...]:
    """Lab 03 and the lab beside this file; INFRALENS_ATTACK_LABS names others ("all", or ids)."""
    wanted = os.environ.get("INFRALENS_ATTACK_LABS", "diffusers/lab-03")
    chosen = [
        lab for lab in labs_with_solutions() if wanted == "all" or lab.id in wanted.split(",")
    ]
    return (*chosen, lab_for_attacks())


def isolation_of(attack: Attack) -> str | None:
    """How it is graded: INFRALENS_ATTACK_ISOLATION, or what its level asks for; None: not here."""
    wanted = os.environ.get("INFRALENS_ATTACK_ISOLATION", attack.level)
    return None if wanted == "sandbox" and unavailable() else wanted


def pairs() -> tuple[tuple[Attack, Lab], ...]:
    """Every attack with every lab that it is set at; labs that were named get all of them."""
    named = "INFRALENS_ATTACK_LABS" in os.environ
    return tuple(
        (attack, lab)
        for lab in labs_to_attack()
        for attack in read_corpus()
        if attack.is_set_at(lab) or (named and lab.track != "attacks" and not attack.applies_to)
    )


def one_of_each_kind() -> tuple[tuple[Attack, Lab], ...]:
    """The first attack of each kind with every lab of the learners', where `pairs` has it not."""
    first: dict[str, Attack] = {}
    for attack in read_corpus():
        if not attack.applies_to:
            first.setdefault(attack.kind, attack)
    known = {(attack.path, lab.id) for attack, lab in pairs()}
    return tuple(
        (attack, lab)
        for lab in labs_with_solutions()
        for attack in first.values()
        if (attack.path, lab.id) not in known
    )


@dataclass
class Outcome:
    """What came of one attack."""

    attack: Attack
    lab: str
    points: int = 0
    deserved: int = 0
    refused: str | None = None
    grader_error: str | None = None
    examiner_died: bool = False
    seconds: float = 0.0
    seconds_past: float = 0.0
    left_behind: tuple[str, ...] = ()
    seconds_crowded: float = 0.0
    candidate_mb: int = 0
    examiner_mb: int = 0
    report_bytes: int = 0
    invalid_json: str | None = None
    isolation: str = "process"
    report: Report | None = field(default=None, repr=False)

    def figure(self) -> Figure:
        """What the table counts."""
        control = self.attack.is_control
        return Figure(
            kind=self.attack.kind,
            points=0 if control else max(self.points - self.deserved, 0),
            crashed=bool(self.grader_error) or self.examiner_died,
            seconds_past=self.seconds_past,
            left=len(self.left_behind),
            misjudged=control and self.points != self.deserved,
            faulty=bool(self.faults()),
        )

    def faults(self) -> list[str]:
        """What went wrong, each in a sentence. Empty is good."""
        found = []
        if self.points != self.deserved:
            found.append(f"{self.points} points given, {self.deserved} deserved")
            found += self.lost() if self.points < self.deserved else ()
        if self.grader_error:
            found.append(f"the grader gave up: {self.grader_error[:300]}")
        if self.examiner_died:
            found.append("the examiner died")
        if self.seconds_past > GRACE_SECONDS:
            found.append(f"{self.seconds_past:.1f} seconds past the limit")
        if self.seconds_crowded > GRACE_SECONDS:
            found.append(f"over {MOST_PROCESSES} processes for {self.seconds_crowded:.1f} seconds")
        found += [f"left behind: {thing}" for thing in self.left_behind]
        for name, value, most in (
            ("MiB taken by the submission", self.candidate_mb, MOST_CANDIDATE_MB),
            ("MiB taken by the examiner", self.examiner_mb, MOST_EXAMINER_MB),
            ("bytes of report", self.report_bytes, MOST_REPORT_BYTES),
        ):
            if value > most:
                found.append(f"{value:,} {name}, more than {most:,}")
        if self.invalid_json:
            found.append(f"the report is no strict JSON: {self.invalid_json}")
        return found

    def lost(self) -> Iterator[str]:
        """What the checks said that did not pass, and with which seed."""
        if self.report is None:
            return
        for _, check in unpassed(self.report):
            found = check.detail and (check.detail.case, check.detail.yours)
            yield f"seed {self.report.seed}: {check.name}: {check.message} {found}"


@dataclass(frozen=True)
class Figure:
    """One outcome as the table counts it; plain values, which a worker of pytest-xdist can send."""

    kind: str
    points: int
    crashed: bool
    seconds_past: float
    left: int
    misjudged: bool
    faulty: bool


SetAt = Callable[[Attack, Lab, str | None], Outcome]
"""Sets an attack at the grader at this level, or at the one that it asks for."""


class Monitor:
    """Looks at an examiner and what descends from it, and remembers the most that it saw."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.candidate_mb = self.examiner_mb = 0
        self.seconds_crowded = 0.0
        self.rest_mb = self._sizes()[0]
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _sizes(self) -> tuple[int, int, int]:
        try:
            root = psutil.Process(self.pid)
            own, family, size = root.memory_info().rss, root.children(recursive=True), 0
            for child in family[:MOST_LOOKED_INTO]:
                with contextlib.suppress(psutil.Error, OSError, ValueError):
                    size += _own_bytes(child)
            return own >> 20, len(family), size >> 20
        except psutil.Error:
            return 0, 0, 0

    def _living(self) -> int:
        try:
            return sum(map(_lives, psutil.Process(self.pid).children(recursive=True)))
        except psutil.Error:
            return 0

    def _look(self) -> None:
        crowded_since: float | None = None
        while not self._stopped.wait(LOOK_SECONDS):
            own, count, size = self._sizes()
            if count > MOST_PROCESSES:
                count = self._living()
            if count <= MOST_PROCESSES:
                crowded_since = None
            elif crowded_since is None:
                crowded_since = time.monotonic()
            else:
                crowded = time.monotonic() - crowded_since
                self.seconds_crowded = max(self.seconds_crowded, crowded)
            self.examiner_mb = max(self.examiner_mb, own - self.rest_mb)
            self.candidate_mb = max(self.candidate_mb, size)

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()


def _lives(process: psutil.Process) -> bool:
    """Whether it can still do anything: to unmap what hundreds held takes Linux seconds.

    Who is stopped or ending cannot. `man proc_pid_stat`: the state is the first field after the
    name, the flags are the seventh.
    """
    try:
        stat = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    state, *_, flags = stat.rpartition(")")[2].split()[:7]
    return state not in "TZX" and not int(flags) & ENDING


def _own_bytes(process: psutil.Process) -> int:
    """What a process holds; pages that forks share are divided among them."""
    size: int = process.memory_info().rss
    if size < LARGE_BYTES:
        return 0
    rollup = Path(f"/proc/{process.pid}/smaps_rollup")
    if not rollup.exists():
        return size
    text = rollup.read_text(encoding="ascii")
    return int(text.partition("\nPss:")[2].split()[0]) << 10


class Arena:
    """A shared examiner in a temporary folder of its own, and everything that watches it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.temporary = root / "tmp"
        self.temporary.mkdir()
        self.suites = root / "suites"
        self.serving: Examiner | None = None
        self.starts: list[float] = []  # the seconds of each candidate's start, of the last grade
        self.seconds_of_nothing: dict[tuple[str, str], float] = {}
        self.deaths = 0
        self.at_rest = self.folders_at_rest = 0

    def close(self) -> None:
        """End the shared examiner."""
        self.at_rest = self.folders_at_rest = 0
        self.seconds_of_nothing.clear()
        if self.serving is not None:
            self.serving.close()
            self.serving = None

    def limited(self, lab: Lab) -> Lab:
        """The lab with short limits, in a copy of its suite: the examiner reads lab.yaml."""
        suite = self.suites / lab.track / lab.suite.name
        if not suite.exists():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(lab.suite, suite, ignore=ignored)
            data = yaml.safe_load((suite / "lab.yaml").read_text(encoding="utf-8"))
            text = yaml.safe_dump({**data, "limits": LIMITS}, allow_unicode=True)
            (suite / "lab.yaml").write_text(text, encoding="utf-8")
        place = Place(self.suites, lab.place.exercises, lab.place.solutions)
        return read_lab(suite / "lab.yaml", place)

    def examiner(self, lab: Lab, isolation: str) -> Examiner:
        """The shared examiner; started again, and counted as a death, when it has gone."""
        if self.serving is not None and self.serving.process.poll() is not None:
            self.deaths += 1
            self.close()
        if self.serving is None:
            with self._surroundings(self.root):
                self.serving = Examiner(serve=True)
        if (isolation, lab.id) not in self.seconds_of_nothing:
            for _ in range(2):
                started = time.monotonic()
                self._graded(lab, lab.stub, isolation=isolation, using=self.serving)
                seconds = time.monotonic() - started
            # A stub takes no time of its own: this is what an honest grade of nothing costs here.
            # And each lab may keep a template of its own in stock, with what it wants loaded.
            self.seconds_of_nothing[isolation, lab.id] = seconds - self._start_seconds()
            self._rest()
        return self.serving

    def _start_seconds(self) -> float:
        """What the first and the last start of the last grade took: no time of the submission's.

        Its time begins when the first is over, and the last may have begun just before its end.
        """
        ends = self.starts[:1] + self.starts[1:][-1:]
        return sum(min(seconds, LONGEST_START_SECONDS) for seconds in ends)

    def _rest(self) -> None:
        """Wait until the shared examiner is at rest, and see what it then keeps in stock."""
        assert self.serving is not None
        same, last = 0, (-1, -1)
        while same < 10 and self.serving.process.poll() is None:
            time.sleep(0.1)
            folders = sum(path.name.startswith("infralens-") for path in self.temporary.iterdir())
            family = psutil.Process(self.serving.process.pid).children(recursive=True)
            now = len(family), folders
            same, last = (same + 1, now) if now == last else (0, now)
        self.at_rest, self.folders_at_rest = last

    @contextlib.contextmanager
    def _surroundings(self, folder: Path) -> Iterator[None]:
        """Start processes here, with temporary files where they can be counted."""
        before, tempdir = Path.cwd(), os.environ.get("TMPDIR")
        os.environ |= {"TMPDIR": str(self.temporary), MARKER: str(self.root)}
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)
            del os.environ[MARKER]
            if tempdir is None:
                del os.environ["TMPDIR"]
            else:
                os.environ["TMPDIR"] = tempdir

    def run(self, attack: Attack, lab: Lab, isolation: str | None = None) -> Outcome:
        """Set the attack at the grader, at this level or at the one that it asks for.

        What was only late is tried once more: another program may have held the machine up.
        """
        outcome = self._run(attack, lab, isolation)
        if outcome.seconds_past > GRACE_SECONDS and len(outcome.faults()) == 1:
            outcome = self._run(attack, lab, isolation)
        return outcome

    def _run(self, attack: Attack, lab: Lab, isolation: str | None) -> Outcome:
        folder = Path(tempfile.mkdtemp(dir=self.root, prefix="attack-"))
        submission = attack.build(lab, folder)
        others = [path for path in folder.iterdir() if path != submission]
        plain = lab if attack.is_control or attack.deserves else self.limited(lab)
        todos = [todo.id for todo in lab.todos]
        if "points" not in attack.breaks and not attack.is_control:
            todos = _few(lab)
        outcome = Outcome(attack, lab.id, deserved=attack.deserved(lab, todos))
        outcome.isolation = isolation or isolation_of(attack) or "process"
        houses = (lab.suite, lab.stub.parent, *([lab.solution.parent] if lab.solution else []))
        before = {path: _contents(path) for path in houses}
        if others and not attack.is_control:
            # What lies beside may matter to a process that is started there.
            with self._surroundings(folder), examiner() as alone:
                self._grade(plain, submission, todos, alone, outcome)
            outcome.seconds_past = 0.0  # it pays for its own start
        else:
            by = self.examiner(plain, outcome.isolation)
            self._grade(plain, submission, todos, by, outcome)
            if attack.kind == "Reaching the verdict":
                self._grade_the_next(plain, by, outcome)
        outcome.left_behind = (
            *self._left(self.serving),
            *(f"{path} was changed" for path in houses if _contents(path) != before[path]),
        )
        if self.serving is not None and self.serving.process.poll() is not None:
            outcome.examiner_died = True
        if outcome.left_behind or outcome.grader_error or outcome.examiner_died:
            self._sweep()
        _remove(folder)
        return outcome

    def _grade(
        self, lab: Lab, submission: Path, todos: Sequence[str], by: Examiner, outcome: Outcome
    ) -> None:
        monitor, started = Monitor(by.process.pid), time.monotonic()
        try:
            report = self._graded(
                lab, submission, todos=todos, isolation=outcome.isolation, using=by
            )
            outcome.points, outcome.grader_error = report.score, report.grader_error
            outcome.report = replace(report)
            text = report.to_json()
            outcome.report_bytes = len(text)
            outcome.invalid_json = _why_not_strict(text)
        except UnreadableError as error:
            outcome.refused = str(error)
        outcome.seconds = time.monotonic() - started
        monitor.stop()
        nothing = self.seconds_of_nothing.get((outcome.isolation, outcome.lab), 0.0)
        allowed = lab.limits.lab_seconds + nothing + self._start_seconds()
        outcome.seconds_past = max(0.0, outcome.seconds - allowed)
        outcome.seconds_crowded, outcome.examiner_mb = monitor.seconds_crowded, monitor.examiner_mb
        outcome.candidate_mb = monitor.candidate_mb

    def _graded(self, lab: Lab, submission: Path, **how: Any) -> Report:
        """One grade; how long the candidates took to start in it is kept in `starts`."""
        self.starts = []

        def note(event: dict[str, Any]) -> None:
            if event["event"] == "starts":
                self.starts = event["seconds"]

        return grade(lab, submission, wishes=BRIEFLY, on_event=note, **how)

    def _grade_the_next(self, lab: Lab, by: Examiner, outcome: Outcome) -> None:
        """Grade a stub in the same examiner: what was planted for the next learner shows here."""
        report = grade(lab, lab.stub, isolation=outcome.isolation, wishes=BRIEFLY, using=by)
        outcome.points += report.score
        outcome.grader_error = outcome.grader_error or report.grader_error

    def _left(self, shared: Examiner | None) -> list[str]:
        """What is still there that should not be. The examiner has a moment to tidy up."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            left = self._look_around(shared)
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.1)

    def _look_around(self, shared: Examiner | None) -> list[str]:
        """Processes and files beyond those of an examiner at rest."""
        own, family = set(), []
        if shared is not None and shared.process.poll() is None:
            with contextlib.suppress(psutil.Error):
                family = psutil.Process(shared.process.pid).children(recursive=True)
            own = {shared.process.pid, *(child.pid for child in family)}
        left = []
        if len(family) > (self.at_rest if shared else 0):
            left += [f"process {_described(child)}" for child in family[:4]]
        for process in psutil.process_iter():
            if process.pid not in own and process.pid != os.getpid() and self._ours(process):
                left.append(f"process {_described(process)}")
        names = [path.name for path in self.temporary.iterdir()]
        folders = [name for name in names if name.startswith("infralens-")]
        if len(folders) > self.folders_at_rest:
            left += [f"file {name}" for name in folders]
        return left + [f"file {name}" for name in names if not name.startswith(EXPECTED_NAMES)]

    def _ours(self, process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.Error, OSError):
            home = process.environ().get("HOME", "")
            return home.startswith(str(self.root)) or process.cwd().startswith(str(self.root))
        return False

    def _sweep(self) -> None:
        """Begin anew after something was left: end the examiner and remove what is there."""
        self.close()
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.pid != os.getpid() and self._ours(process):
                    process.kill()
        for path in self.temporary.iterdir():
            _remove(path)


def _few(lab: Lab) -> list[str]:
    """The first todo, and the first with a class."""
    assert lab.solution is not None
    tree = ast.parse(lab.solution.read_text(encoding="utf-8"))
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    with_class = [todo.id for todo in lab.todos if classes & set(todo.names)]
    return list(dict.fromkeys([lab.todos[0].id, *with_class]))[:FEW_TODOS]


def _described(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return f"{process.pid} {process.status()} {' '.join(process.cmdline())[:80]}"
    return str(process.pid)


def _contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def _remove(path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    # Not shutil.rmtree: what an attack left may be deeper than Python can recurse.
    for entry in (path, *path.glob("*")):
        with contextlib.suppress(OSError):
            entry.chmod(0o700)
    subprocess.run(["rm", "-rf", "--", str(path)], check=False)


def _why_not_strict(text: str) -> str | None:
    def refuse(name: str) -> Any:
        raise ValueError(f"{name} in it")

    try:
        text.encode("utf-8")
        json.loads(text, parse_constant=refuse)
    except ValueError as error:
        return str(error)[:200]
    return None


def table(figures: Sequence[Figure], deaths: int = 0) -> str:
    """The figures, one row a kind."""
    head = ("kind", "tried", "points", "crashes", "past s", "left", "misjudged", "other")
    rows: list[tuple[str, ...]] = []
    for kind in (*KINDS, "all"):
        these = [figure for figure in figures if kind in (figure.kind, "all")]
        if not these:
            continue
        crashes = sum(figure.crashed for figure in these)
        rows.append(
            (
                kind,
                str(len(these)),
                str(sum(figure.points for figure in these)),
                str(crashes + (deaths if kind == "all" else 0)),
                f"{max(figure.seconds_past for figure in these):.1f}",
                str(sum(figure.left for figure in these)),
                str(sum(figure.misjudged for figure in these)),
                str(sum(figure.faulty for figure in these)),
            )
        )
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in (head, *rows)
    )
