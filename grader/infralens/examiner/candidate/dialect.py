"""IPython's additions to Python: passed over where nothing depends on them, refused where it may.

A notebook's cell may hold what only IPython reads: `%magics`, `!commands`, `name?`. What only shows
or sets up something becomes `pass`; what could bind a name or run other code is refused in one
sentence. A text that is Python already is left as it is. Lines are never moved.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

# They show something, set the notebook up, install, or are this kit's own.
QUIET = frozenset(
    (
        *("alias", "autoreload", "autosave", "cd", "conda", "config", "grade", "hint", "infralens"),
        *("load_ext", "logstart", "ls", "mamba", "matplotlib", "pdb", "pdef", "pdoc", "pfile"),
        *("pinfo", "pinfo2", "pip", "precision", "psource", "pwd", "read", "reload_ext", "sx"),
        *("system", "timeit", "uv", "who", "whos", "xmode"),
    )
)
RUNS = frozenset(("time",))  # %time x = f() binds x
WHOLE_RUNS = frozenset(("capture", "time"))  # %%time: the rest of the cell is Python
WHOLE_QUIET = frozenset(
    (
        *("bash", "cmd", "html", "javascript", "js", "latex", "markdown", "perl", "ruby"),
        *("script", "sh", "svg", "sx", "timeit"),
    )
)
MAGIC = re.compile(r"(%{1,2})\s*([A-Za-z_]\w*)?(.*)", re.DOTALL)
ASSIGNED = re.compile(r"[\w.,\s\[\]*]+=\s*([!%].*)", re.DOTALL)
HELP = re.compile(r"\?{1,2}\s*[\w.*]+\s*;?|[%!]{0,2}[\w.*\[\]()'\"]+\s*\?{1,2}\s*;?")


@dataclass(frozen=True)
class Refused:
    """Why a cell is not run, and the line of it (from 1) that is to blame."""

    sentence: str
    line: int


def python_of(source: str) -> str | Refused:
    """The cell as Python, line for line; or why it is not run. Syntax errors are left in it."""
    if _parses(source):
        return source
    lines = source.split("\n")
    first = next((i for i, line in enumerate(lines) if line.strip()), 0)
    indent = lines[first][: len(lines[first]) - len(lines[first].lstrip())]
    if indent:  # a cell may be indented as a whole
        lines = [line.removeprefix(indent) for line in lines]
    if lines[first].startswith("%%"):
        name = _magic_name(lines[first])
        if name in WHOLE_QUIET:
            return "\n".join("# " + line for line in lines)
        if name not in WHOLE_RUNS:
            return Refused(_sentence("%%" + name), first + 1)
        lines[first] = ""
        if _parses("\n".join(lines)):
            return "\n".join(lines)
    for start, end in _statements(lines):
        translated = _translated("\n".join(lines[start:end]))
        if isinstance(translated, Refused):
            return Refused(translated.sentence, start + 1)
        lines[start:end] = [translated, *[""] * (end - start - 1)]
    return "\n".join(lines)


def _parses(source: str) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _sentence(what: str) -> str:
    return f"{what} is IPython's and is not run when this is graded; write it in Python"


def _magic_name(text: str) -> str:
    found = MAGIC.match(text)
    return (found[2] or "") if found else ""


def _translated(text: str) -> str | Refused:
    """A statement of IPython's, perhaps on several lines, as one line of Python."""
    stripped = text.strip()
    indent = text[: len(text) - len(text.lstrip())]
    assigned = ASSIGNED.fullmatch(stripped)
    if assigned is not None:
        return Refused(_sentence(assigned[1].split()[0][:40]), 1)
    if stripped.startswith("!") or HELP.fullmatch(stripped):
        return f"{indent}pass"
    magic = MAGIC.fullmatch(stripped)
    assert magic is not None
    name, rest = magic[2] or "", magic[3].strip()
    if magic[1] == "%" and name in QUIET:
        return f"{indent}pass"
    if magic[1] == "%" and name in RUNS and "\n" not in rest:
        return indent + (rest or "pass")
    return Refused(_sentence(magic[1] + name[:40]), 1)


def _statements(lines: list[str]) -> Iterator[tuple[int, int]]:
    """The lines of each statement that is IPython's and no Python: from, up to."""
    scanner = _Scanner()
    number = 0
    while number < len(lines):
        line = lines[number]
        if scanner.at_a_statement and _is_ipython(line.strip()):
            start = number
            while lines[number].endswith("\\") and number + 1 < len(lines):
                number += 1
            yield start, number + 1
        else:
            scanner.read(line)
        number += 1


def _is_ipython(text: str) -> bool:
    if text.startswith(("%", "!")):
        return True
    return bool(HELP.fullmatch(text) or ASSIGNED.fullmatch(text))


class _Scanner:
    """Reads Python line by line and knows whether the next line begins a statement."""

    TOKEN = re.compile(r"#.*|\\.|\\$|\"\"\"|'''|[\"'()\[\]{}]")

    def __init__(self) -> None:
        self.quote, self.depth, self.goes_on = "", 0, False

    @property
    def at_a_statement(self) -> bool:
        return not (self.quote or self.depth or self.goes_on)

    def read(self, line: str) -> None:
        self.goes_on = False
        place = 0
        while (found := self.TOKEN.search(line, place)) is not None:
            token, place = found[0], found.end()
            if token.startswith("#") and self.quote:  # no comment: inside a string
                place = found.start() + 1
            elif token == "\\":  # at the end of the line
                self.goes_on = True
            elif token[0] in "\"'":
                place = self._quoted(token, found.start())
            elif not self.quote and token in "([{":
                self.depth += 1
            elif not self.quote and token in ")]}":
                self.depth = max(self.depth - 1, 0)
        if len(self.quote) == 1 and not self.goes_on:  # it had to end on its line
            self.quote = ""

    def _quoted(self, token: str, start: int) -> int:
        """Where to read on after quotation marks at `start`."""
        if not self.quote:
            self.quote = token
        elif token == self.quote:
            self.quote = ""
        elif token.startswith(self.quote):  # "" and """ while in ": the first one ends it
            self.quote = ""
            return start + 1
        elif len(token) == 3:  # ''' while in " : three marks of no meaning
            return start + 3
        return start + len(token)
