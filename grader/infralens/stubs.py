"""Solution → stub. The one reader of the markers around answers.

A solution file keeps each answer between `### BEGIN SOLUTION` and `### END SOLUTION`, nbgrader's
own markers. In the stub each region becomes one line that raises NotImplementedError and names the
todo.
"""

from __future__ import annotations

import ast
import io
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"


class MarkerError(ValueError):
    """The markers of a solution do not pair, or stand where no todo is; the text says where."""


@dataclass(frozen=True)
class Region:
    """An answer: the lines from marker to marker (from 1, both included) and whose it is."""

    first: int
    last: int
    name: str

    @property
    def owner(self) -> str:
        """The function or class at the top of the file that the answer belongs to."""
        return self.name.split(".")[0]


def lines_of(code: str) -> list[str]:
    """The lines as Python's parser counts them: a form feed or U+2028 ends none."""
    return [line.rstrip("\n") for line in io.StringIO(code, newline=None)]


def regions(solution: str) -> tuple[Region, ...]:
    """Every answer in the file, in order."""
    lines = lines_of(solution)
    found: list[Region] = []
    begun: int | None = None
    tree: ast.Module | None = None
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if text == BEGIN:
            if begun is not None:
                raise MarkerError(f"line {number}: {BEGIN} inside the answer begun on line {begun}")
            begun = number
        elif text == END:
            if begun is None:
                raise MarkerError(f"line {number}: {END} without {BEGIN}")
            tree = tree or ast.parse(solution)
            found.append(Region(begun, number, _name_around(tree, begun)))
            begun = None
    if begun is not None:
        raise MarkerError(f"line {begun}: {BEGIN} without {END}")
    return tuple(found)


def _name_around(tree: ast.Module, line: int) -> str:
    path: list[str] = []
    node: ast.AST = tree
    while True:
        inner = next(
            (
                child
                for child in ast.iter_child_nodes(node)
                if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
                and child.lineno <= line <= (child.end_lineno or 0)
            ),
            None,
        )
        if inner is None:
            break
        path.append(inner.name)
        node = inner
    if not path:
        raise MarkerError(f"line {line}: an answer outside every function and class")
    return ".".join(path)


def stub_of(solution: str, todo_of_name: Mapping[str, str]) -> str:
    """The stub. `todo_of_name` gives the todo's id for each name at the top of the file."""
    lines = lines_of(solution)
    out: list[str] = []
    position = 0
    for region in regions(solution):
        todo = todo_of_name.get(region.owner)
        if todo is None:
            raise MarkerError(f"line {region.first}: {region.owner} belongs to no todo of the lab")
        out += lines[position : region.first - 1]
        marker = lines[region.first - 1]
        indent = marker[: len(marker) - len(marker.lstrip())]
        out.append(f'{indent}raise NotImplementedError("TODO {todo}: {region.name}")')
        position = region.last
    return "\n".join([*out, *lines[position:]]) + "\n"


@dataclass(frozen=True)
class Piece:
    """Some lines at the top of a solution: the answer to a todo, or what is given."""

    todo: str | None
    text: str


def pieces(solution: str, todo_of_name: Mapping[str, str]) -> tuple[Piece, ...]:
    """The solution without its docstring, cut between what is given and each todo's answer.

    Neighbours that belong together are one piece. A comment belongs to what follows it.
    """
    lines = lines_of(solution)
    nodes = ast.parse(solution).body
    found: list[Piece] = []
    position = 0
    if ast.get_docstring(ast.parse(solution)) is not None:
        position = nodes.pop(0).end_lineno or 0
    for node in nodes:
        last = node.end_lineno or node.lineno
        while last < len(lines) and lines[last][:1].isspace():  # the comment that ends an answer
            last += 1
        todo = todo_of_name.get(getattr(node, "name", ""))
        text = "\n".join(lines[position:last])
        if found and found[-1].todo == todo:
            found[-1] = Piece(todo, f"{found[-1].text}\n{text}")
        else:
            found.append(Piece(todo, text.strip("\n")))
        position = last
    return tuple(found)


def definitions(solution: str, names: Collection[str]) -> str:
    """The functions and classes of these names at the top of the file, without the markers."""
    lines = lines_of(solution)
    found = []
    for node in ast.parse(solution).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in names:
            first = min([node.lineno, *(mark.lineno for mark in node.decorator_list)])
            kept = lines[first - 1 : node.end_lineno]
            found.append("\n".join(line for line in kept if line.strip() not in (BEGIN, END)))
    return "\n\n\n".join(found) + "\n"


def answer_lines(solution: str) -> Iterator[str]:
    """Each line of each answer, stripped: what must appear in nothing that is released."""
    lines = lines_of(solution)
    for region in regions(solution):
        for line in lines[region.first : region.last - 1]:
            if line.strip():
                yield line.strip()
