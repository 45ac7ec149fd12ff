"""The lines by which an answer or a suite is known wherever it turns up.

A line is distinctive when it is long enough to be nobody's chance and stands in nothing that
learners get anyway: stubs, pages, the handbook, hints. It is looked for as its *bare* bytes, the
visible ASCII of it: neither white space, nor a line break, nor UTF-16 hides it.
"""

from __future__ import annotations

import ast
import html
import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from infralens.labs import DEFAULT_TRACK, PACKAGE, Lab
from infralens.stubs import lines_of, regions, stub_of

LEAST = 20  # visible bytes of several lines of an answer together, and what is looked up
STRETCH = LEAST // 2  # what is looked at first
LEAST_ANSWER = 24  # of one line: `return sample / scale` may be anybody's
LEAST_SUITE = 36  # suites are long, and much in them says nothing: `n = draw.integer(5, 20)`
CONTROL = bytes({*range(32)} - {*b"\t\n\r\f\x1b"})
DELETED = bytes(sorted({*range(256)} - {*range(0x21, 0x7F)}))
LABS = ("exercises", "solutions", "suites")  # parts of an installed package
BYTE_ORDER = {b"\xff\xfe\0\0": "utf-32", b"\0\0\xfe\xff": "utf-32"}
BYTE_ORDER |= {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
LONG_NUMBER = re.compile(rb"&#[xX]?[0-9a-fA-F]{9,};?")  # no letter, and no int either
TAG = re.compile(rb"<[^<>]{0,500}>")
COLOUR = re.compile(rb"\x1b\[[0-9;]{0,50}m")  # as tracebacks have it, in terminals and notebooks
TEXT_SHARE = 0.95  # of the bytes of a text are no control characters
NESTED = 2  # JSON in a string of JSON


@dataclass(frozen=True)
class Line:
    """A line that gives something away. `owner` is a todo's id or names a suite."""

    text: str
    owner: str


@dataclass(frozen=True)
class Distinctive:
    """The distinctive lines of some labs, by the first bytes of what is looked for."""

    lines: dict[bytes, list[tuple[bytes, Line]]] = field(default_factory=dict)

    def found_in(self, data: bytes) -> set[Line]:
        """Every line that stands in the data: as it is, escaped as in JSON, coloured or as HTML."""
        found: set[Line] = set()
        seen: set[bytes] = set()
        for view in _views(_decoded(data)):
            visible = bare(view)
            if visible not in seen:
                seen.add(visible)
                found |= self._found_in(visible)
        return found

    def _found_in(self, visible: bytes) -> set[Line]:
        stretches = self._stretches
        starts = {
            place - before
            for place in range(0, len(visible), STRETCH)
            for before in stretches.get(visible[place : place + STRETCH], ())
            if place >= before
        }
        return {
            line
            for at in starts
            for whole, line in self.lines.get(visible[at : at + LEAST], ())
            if visible.startswith(whole, at)
        }

    @cached_property
    def _stretches(self) -> dict[bytes, set[int]]:
        """How far behind the start of a line each stretch of its first bytes may stand.

        Wherever a line stands, one of its stretches begins at a multiple of their length: no other
        places need to be looked at.
        """
        found: dict[bytes, set[int]] = {}
        for first in self.lines:
            for before in range(STRETCH):
                found.setdefault(first[before : before + STRETCH], set()).add(before)
        return found


def bare(data: bytes) -> bytes:
    """The visible ASCII of it."""
    return data.translate(None, DELETED)


def distinctive_lines(labs: Sequence[Lab]) -> Distinctive:
    """What gives away an answer or a suite of these labs."""
    texts = {text: None for lab in labs for text in _public(lab)}  # the handbook is everybody's
    public = b"\n".join(bare(text.encode()) for text in texts)
    # Most lines begin as nothing public does; to search all of it for each would take seconds.
    begun = {public[at : at + LEAST] for at in range(len(public))}
    everyday = _lines_of_the_kit()
    known: dict[bytes, dict[tuple[bytes, Line], None]] = {}
    for line, least in (secret for lab in labs for secret in _secret(lab)):
        whole = bare(line.text.encode())
        if len(whole) < least or whole in everyday:
            continue
        if whole[:LEAST] not in begun or whole not in public:
            known.setdefault(whole[:LEAST], {})[whole, line] = None
    return Distinctive({first: list(lines) for first, lines in known.items()})


def solution_of(lab: Lab) -> str | None:
    """The text of the lab's solution, where it is here."""
    path = lab.solution
    return path.read_text(encoding="utf-8") if path is not None and path.is_file() else None


def stub_text(lab: Lab, solution: str) -> str:
    """The stub, made from the solution: the one that lies about may have been worked in."""
    return stub_of(solution, {name: todo.id for name, todo in lab.todo_of_name.items()})


def suite_files(lab: Lab) -> Iterator[Path]:
    """The Python files of a suite: checks, what helps them, the quiz with its answers."""
    return iter(sorted(lab.suite.glob("*.py")))


def owner_of(lab: Lab, name: str) -> str:
    """The todo that an answer with this name belongs to, as a command takes it."""
    todo = lab.todo_of_name.get(name)
    number = todo.id if todo else lab.short
    return number if lab.track == DEFAULT_TRACK else f"{lab.track}/{number}"


def suite_owner(lab: Lab) -> str:
    return f"the suite of {lab.short}"


def _public(lab: Lab) -> Iterator[str]:
    """What learners get of a lab, as text."""
    text = solution_of(lab)
    if text is not None:
        yield stub_text(lab, text)
    pages = [lab.page, *sorted((lab.place.exercises / "handbook").glob("*.md"))]
    for path in pages:
        if path.is_file():
            yield path.read_text(encoding="utf-8", errors="replace")
    yield from (hint for todo in lab.todos for hint in todo.hints)


def _lines_of_the_kit() -> set[bytes]:
    """The lines of the kit outside of its suites: `def __call__(self, *args: Any) -> Any:`."""
    found: set[bytes] = set()
    for path in PACKAGE.rglob("*.py"):
        if path.relative_to(PACKAGE).parts[0] not in LABS:
            found |= {bare(line) for line in path.read_bytes().splitlines()}
    return found


def _secret(lab: Lab) -> Iterator[tuple[Line, int]]:
    """Every line of an answer or a suite, and how long it must be to be distinctive."""
    text = solution_of(lab)
    if text is not None:
        code = list(_code_lines(text))
        for region in regions(text):
            inside = [line for line in code[region.first : region.last - 1] if line.strip()]
            owner = owner_of(lab, region.owner)
            alone = [line for line in inside if not NAME_ALONE.fullmatch(line)]
            yield from ((Line(line, owner), LEAST_ANSWER) for line in alone)
            yield Line("\n".join(inside), owner), LEAST  # short lines give it away together
    for path in suite_files(lab):
        source = path.read_text(encoding="utf-8")
        docstrings = _docstring_lines(source)
        for number, line in enumerate(_code_lines(source), start=1):
            if number not in docstrings and _says_something(line):
                yield Line(line, suite_owner(lab)), LEAST_SUITE


def _code_lines(source: str) -> Iterator[str]:
    """Each line without its comment, stripped; a comment alone is a line."""
    cut: dict[int, int] = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            cut[token.start[0]] = token.start[1]
    for number, line in enumerate(lines_of(source), start=1):
        code = line[: cut.get(number)].strip()
        yield code or line.strip()


def _docstring_lines(source: str) -> set[int]:
    """The lines of docstrings: reports show them as the titles of checks."""
    found: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                found |= {*range(first.lineno, (first.end_lineno or first.lineno) + 1)}
    return found


LIBRARY = re.compile(r"(from|import)\s+(?!infralens)\w")
NAME_ALONE = re.compile(r"""["']\w+["'],?|\w+=\w+,""")
MESSAGE = re.compile(r"""[rbfu]{0,2}("[^"]*"|'[^']*')[,)\]}]*""")


def _says_something(line: str) -> bool:
    """Whether a line of a suite is the suite's own: not an import of a library, not a message."""
    return not (LIBRARY.match(line) or MESSAGE.fullmatch(line))


def _decoded(data: bytes) -> bytes:
    """Text in UTF-16 or UTF-32 as UTF-8; other bytes as they are."""
    for mark, encoding in BYTE_ORDER.items():
        if data.startswith(mark):
            return data.decode(encoding, "ignore").encode("utf-8", "ignore")
    return data


def _views(data: bytes) -> Iterator[bytes]:
    """The data, and if it is text: what it is once escapes are resolved, tags and colours gone."""
    if len(data.translate(None, CONTROL)) < TEXT_SHARE * len(data):
        yield data
        return
    plain = [data]
    while b"\\" in plain[-1] and len(plain) <= NESTED:
        plain.append(ESCAPE.sub(_resolved, plain[-1]))
    for text in [*plain, *(COLOUR.sub(b"", text) for text in plain if b"\x1b[" in text)]:
        yield text
        if (b"<" in text and b">" in text) or b"&" in text:
            yield from _without_markup(text)


def _without_markup(text: bytes) -> Iterable[bytes]:
    text = LONG_NUMBER.sub(b"", text)
    for less in (text, TAG.sub(b"", text)):
        yield html.unescape(less.decode("latin-1")).encode("utf-8")


def _resolved(match: re.Match[bytes]) -> bytes:
    number, letter = match.groups()
    if number is not None:
        return chr(int(number, 16)).encode("utf-8", "ignore")
    return b" " if letter in b"nrt" else bytes(letter)
