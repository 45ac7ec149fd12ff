"""The library's own function behind a todo, as installed: its file and the lines that matter.

Nothing is imported: a package is found on the path and its file is parsed, so that torch is not
waited for.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from textwrap import dedent

from infralens.labs import Source

MOST_LINES = 15


class NoSourceError(LookupError):
    """The installed library has no such function, or no such line in it; the text says which."""


@dataclass(frozen=True)
class Excerpt:
    """Some lines of a function: `first` counts from 1 in the file."""

    path: Path
    first: int
    lines: tuple[str, ...]

    @property
    def last(self) -> int:
        return self.first + len(self.lines) - 1

    @property
    def text(self) -> str:
        return dedent("\n".join(self.lines))


def excerpt(source: Source, search: Sequence[str] | None = None) -> Excerpt:
    """The lines that matter: from the line that holds `source.at`, or from the body's first.

    `search` is where packages are looked for, by default where Python would. NoSourceError when
    the installed library has moved on.
    """
    path, inner = module_file(source.name, sys.path if search is None else search)
    lines = path.read_text(encoding="utf-8").split("\n")  # as the parser: a form feed ends none
    node = _definition(ast.parse("\n".join(lines)), inner)
    if node is None:
        raise NoSourceError(f"{path} has no {'.'.join(inner)}")
    last = node.end_lineno or node.lineno
    if source.at:
        found = (n for n in range(node.lineno, last + 1) if source.at in lines[n - 1])
        first = next(found, 0)
        if not first:
            raise NoSourceError(f"{source.name} has no line with {source.at!r}")
    else:
        first = _body(node)
    taken = lines[first - 1 : min(first - 1 + MOST_LINES, last)]
    while taken and not taken[-1].strip():
        taken.pop()
    return Excerpt(path, first, tuple(taken))


def module_file(name: str, search: Sequence[str]) -> tuple[Path, tuple[str, ...]]:
    """The file of the longest part of a dotted name that is a module, and what is left of it."""
    parts = name.split(".")
    file: Path | None = None
    where: Sequence[str] | None = search
    for depth in range(1, len(parts) + 1):
        spec = PathFinder.find_spec(".".join(parts[:depth]), where)
        if spec is None or spec.origin is None:
            break
        file, used = Path(spec.origin), depth
        where = spec.submodule_search_locations
        if where is None:
            break
    if file is None or file.suffix != ".py":
        raise NoSourceError(f"no package {parts[0]} is installed")
    return file, tuple(parts[used:])


def _definition(tree: ast.AST, inner: Sequence[str]) -> ast.FunctionDef | ast.ClassDef | None:
    """The function or class of that name, inside the classes named before it."""
    node = tree
    for name in inner:
        named = (
            child
            for child in getattr(node, "body", [])
            if isinstance(child, ast.FunctionDef | ast.ClassDef) and child.name == name
        )
        found = next(named, None)
        if found is None:
            return None
        node = found
    return node if isinstance(node, ast.FunctionDef | ast.ClassDef) else None


def _body(node: ast.FunctionDef | ast.ClassDef) -> int:
    """The line where the body begins, after the docstring."""
    at = 1 if ast.get_docstring(node, clean=False) is not None and len(node.body) > 1 else 0
    before = node.body[at - 1].end_lineno if at else None
    return node.body[at].lineno if before is None else before + 1
