"""A submission as text: read with suspicion, and looked at without being run."""

from __future__ import annotations

import ast
import contextlib
import difflib
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from infralens.examiner.candidate import notebook
from infralens.examiner.candidate.notebook import Cell
from infralens.examiner.candidate.outside import names_from_outside
from infralens.examiner.errors import UngradableError, UnreadableError
from infralens.report import place_in_words

MAX_BYTES = 2**20


NOT_FOUND = re.compile(r"No module named '(\w{1,100})((?:\.\w+)*)'")
DEFINING = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class Definition:
    """A function or class at the top of a submission, or a method (`Euler.step`)."""

    name: str
    line: int
    parameters: tuple[str, ...]
    plain: bool = True  # not decorated: a property reads as a value


@dataclass(frozen=True)
class Submission:
    """The text that is graded and the name that it is shown under."""

    text: str
    filename: str

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells of a notebook, which are run one by one; none in a file of Python."""
        return ()

    def place(self, line: int) -> tuple[int, int | None]:
        """A line of the text as its author sees it: the line, and the cell of a notebook."""
        return line, None

    def told(self, line: int) -> str:
        """A line of the text in words."""
        return place_in_words(*self.place(line))

    @cached_property
    def _statements(self) -> list[ast.stmt]:
        try:
            return ast.parse(self.text).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return []

    @cached_property
    def imports(self) -> tuple[str, ...]:
        """The modules that the text imports, wherever in it; relative imports left out."""
        found: dict[str, None] = {}
        for node in (inner for statement in self._statements for inner in ast.walk(statement)):
            if isinstance(node, ast.Import):
                found.update(dict.fromkeys(alias.name for alias in node.names))
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found[node.module] = None
        return tuple(found)

    @cached_property
    def sources(self) -> dict[str, str]:
        """What each name at the top is bound to, as text without comments; "" is all the rest."""
        found: dict[str, str] = {}
        for node in self._statements:
            with contextlib.suppress(RecursionError):
                if isinstance(node, DEFINING):
                    found[node.name] = ast.dump(node)
                else:
                    names = [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]
                    stored = [a.asname or a.name for a in getattr(node, "names", ()) if a]
                    for name in (*names, *map(str, stored)):
                        found[name] = found.get(name, "") + ast.dump(node)
        return found

    @property
    def name(self) -> str:
        """What the file is called, without the folder that it lies in."""
        return Path(self.filename).name

    def lacks_its_neighbour(self, type_names: Sequence[str], text: str) -> str:
        """Why an import failed that would work where the file lies: "" when none did."""
        if "ImportError" not in type_names:
            return ""
        if text.startswith("attempted relative import"):
            return f"only {self.name} is graded: move what you need from other files into it"
        missing = NOT_FOUND.fullmatch(text)
        if missing is None:
            return ""
        for other in (f"{missing[1]}.py", missing[1]):
            with contextlib.suppress(OSError):
                if Path(self.filename).with_name(other).exists():
                    return f"only {self.name} is graded: move what you need from {other} into it"
        return "" if missing[2] else f"only {self.name} and the installed packages are there"

    def is_not_started(self, name: str) -> bool:
        """Whether the function of this name does nothing but raise NotImplementedError."""
        last = [s for s in self._statements if isinstance(s, DEFINING) and s.name == name][-1:]
        body = [s for s in (last[0].body if last else []) if not _is_docstring(s)]
        if len(body) != 1 or not isinstance(body[0], ast.Raise):
            return False
        raised = body[0].exc
        kind = raised.func if isinstance(raised, ast.Call) else raised
        return isinstance(kind, ast.Name) and kind.id == "NotImplementedError"

    def uses(self, name: str) -> frozenset[str]:
        """The names that the function or class of this name takes from outside of it."""
        with contextlib.suppress(RecursionError):
            return frozenset(
                outside
                for node in self._statements
                if isinstance(node, DEFINING) and node.name == name
                for outside in names_from_outside(node)
            )
        return frozenset()

    @cached_property
    def definitions(self) -> dict[str, Definition]:
        found: dict[str, Definition] = {}
        for node in self._statements:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found[node.name] = _definition(node.name, node)
            elif isinstance(node, ast.ClassDef):
                found[node.name] = Definition(node.name, node.lineno, ())
                for item in node.body:
                    if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
                        name = f"{node.name}.{item.name}"
                        found[name] = _definition(name, item)
        return found

    def missing(self, name: str, lab: str) -> str:
        """The sentence for a name that is not there, with the most likely reason."""
        owner, _, last = name.rpartition(".")
        peers = {
            _folded(d.name.rpartition(".")[2]): d
            for d in self.definitions.values()
            if d.name.rpartition(".")[0] == owner
        }
        sentence = f"{lab} is missing `{name}`"
        near = difflib.get_close_matches(_folded(last), peers, n=1, cutoff=0.6)
        if near:
            other = peers[near[0]]
            return (
                f"{sentence}; your file has `{other.name}` on {self.told(other.line)}. "
                "Did you rename it?"
            )
        strays = {_folded(d.name): d for d in self.definitions.values()}
        stray = strays.get(_folded(last)) or strays.get(_folded(name))
        if stray is not None:
            return (
                f"{sentence}; your file has `{stray.name}` on {self.told(stray.line)}. "
                "Did you move it?"
            )
        return f"{sentence}. Put it back under that name."


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _folded(name: str) -> str:
    """A name without what a typing slip changes."""
    return name.lower().replace("_", "").replace(".", "")


def _definition(name: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Definition:
    given = [*node.args.posonlyargs, *node.args.args]
    names = tuple(arg.arg for arg in given)
    parameters = names[1:] if "." in name else names
    return Definition(name, node.lineno, parameters, not node.decorator_list)


def link_on_the_way(path: Path) -> Path | None:
    """The first link among the folders of a path, and the file itself; None when there is none.

    The current folder and the user's home may lie behind one, and so may what is named from the
    root of the system: /home, /tmp. What was handed in lies below.
    """
    path = path.absolute()
    known = [Path.cwd(), Path(os.environ.get("PWD", "/")), _home()]
    starts = [start for start in known if start.is_absolute() and path.is_relative_to(start)]
    start = max(starts, key=lambda start: len(start.parts), default=Path(path.anchor))
    if len(start.parts) < 2:  # the root itself: one folder further
        start = Path(*path.parts[:2])
    here = start
    for part in path.parts[len(start.parts) :]:
        here = here / part
        if here.is_symlink():
            return here
    return path if path.is_symlink() else None


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        return Path("/")


def read_submission(path: Path) -> Submission:
    """The submission in a file, or why it cannot run. UnreadableError where there is no file."""
    data = read_bytes(path)
    if _is_notebook(path):
        return _notebook(data, str(path))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        text = "\ufffd"
        line = data.count(b"\n", 0, error.start) + 1
        return _Undecodable(text, str(path), line)
    return Submission(text.replace("\r\n", "\n"), str(path))


def read_bytes(path: Path) -> bytes:
    """Read a regular file of at most 1 MiB, or a notebook of at most 8. UnreadableError if none.

    Links are refused: graded as somebody else, a link reads what its author may not.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        link = link_on_the_way(path)
        if link is not None:
            raise UnreadableError(f"{link} is a symbolic link; put the file itself there.")
        descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        raise UnreadableError(f"There is no file {path}.") from None
    except IsADirectoryError:
        raise UnreadableError(f"{path} is a directory; name the file in it.") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UnreadableError(f"{path} cannot be read: {reason}.") from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        directory = stat.S_ISDIR(mode)
        what = "a directory; name the file in it" if directory else "not a regular file"
        raise UnreadableError(f"{path} is {what}.")
    most = notebook.MAX_BYTES if _is_notebook(path) else MAX_BYTES
    try:
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(most + 1)
    except OSError as error:  # /proc/self/mem calls itself a regular file
        raise UnreadableError(f"{path} cannot be read: {error.strerror}.") from None
    if len(data) > most:
        advice = "clear its outputs" if _is_notebook(path) else "too large to be a lab"
        raise UnreadableError(f"{path} is larger than {most >> 20} MiB: {advice}.")
    return data


def _is_notebook(path: Path) -> bool:
    return path.suffix.lower() == ".ipynb"


def _notebook(data: bytes, filename: str) -> Submission:
    try:
        cells = notebook.cells_of(data)
    except UngradableError as error:
        return _NoNotebook("", filename, problem=error)
    return Notebook("\n".join(cell.source for cell in cells), filename, cells)


@dataclass(frozen=True)
class Notebook(Submission):
    """A notebook: the text of its cells one after another, those that cannot run as comments."""

    _cells: tuple[Cell, ...] = ()

    @property
    def cells(self) -> tuple[Cell, ...]:
        return self._cells

    def place(self, line: int) -> tuple[int, int | None]:
        for cell in self._cells:
            if cell.first <= line <= cell.last:
                return line - cell.first + 1, cell.number
        return line, None


@dataclass(frozen=True)
class _NoNotebook(Submission):
    problem: UngradableError = field(kw_only=True)


@dataclass(frozen=True)
class _Undecodable(Submission):
    line: int = 0


def require_gradable(submission: Submission) -> None:
    """UngradableError when the text cannot run at all: not UTF-8, or a syntax error.

    A notebook's cells fail one by one, and later.
    """
    if isinstance(submission, _NoNotebook):
        raise submission.problem
    if isinstance(submission, _Undecodable):
        raise UngradableError(
            f"the file is not UTF-8 text (first bad byte on line {submission.line}); "
            "save it as UTF-8",
            submission.line,
        )
    try:
        ast.parse(submission.text, submission.filename)
    except SyntaxError as error:
        line = error.lineno or 1
        code = (error.text or "").rstrip("\n")
        raise UngradableError(f"syntax error on line {line}: {error.msg}", line, code) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise UngradableError(f"the file cannot be parsed: {error}") from None
