"""Lab page and solution → source notebook, as nbgrader takes it: a row of small passes.

Cells are named by `grade_id`: `read-1`, `imports`, then `read-3-3`, `answer-3-3`, `check-3-3` for
each todo, and `explain`. What a learner runs calls the kit's kernel extension; no check is in it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from infralens import __version__
from infralens.course.record import TELLS_NAME
from infralens.labs import DEFAULT_TRACK, Lab, Todo
from infralens.pages import FENCED, anchor, pieces, with_figures_told
from infralens.stubs import Piece
from infralens.stubs import pieces as pieces_of_code

LEARNER = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
INTERVIEW = "how-to-say-it-in-an-interview"
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
HANDBOOK = re.compile(r"(?:\.\./)+handbook/([\w-]+)\.md(#[\w-]+)?")
LAB = re.compile(r"(?:\.\./)+(?:([\w-]+)/)?(lab-\d\d)[\w-]*/(?:README\.md)?(?:#[\w-]+)?")
COMMENT = re.compile(r"^<!--.*?-->\n*", re.MULTILINE | re.DOTALL)
HOW = """\
*In this notebook the file is cut into cells.* Write your answers where a cell says
`raise NotImplementedError`, run it, then run the check cell below it: it grades what you have run,
in a process of its own, and tells what is wrong. `%hint {todo}` gives the next hint,
`%grade {lab}` grades everything, `%read {page}` shows a page of the handbook.
"""
PROMPT = """\
## Say it as in an interview

In five to ten sentences of your own, for somebody who knows the field: what is the state and its
shape, what changes from step to step and what stays, and what is traded for what? Your instructor
reads this cell{worth}.
"""


@dataclass(frozen=True)
class Section:
    """A piece of the lab page: what it says, and which todos it describes (none: all, or none)."""

    heading: str
    text: str
    todos: tuple[str, ...]


def source_notebook(
    lab: Lab, points: Mapping[str, int], *, explain: int = 0, tells: str = "everything"
) -> NotebookNode:
    """The source notebook of a lab, answers included. `points` are by todo."""
    assert lab.solution is not None
    solution = lab.solution.read_text(encoding="utf-8")
    page = lab.page.read_text(encoding="utf-8") if lab.page.is_file() else f"# {lab.title}\n"
    sections = list(_sections(_with_points(_reachable(page, lab), lab, points), lab))
    before, by_todo, after = _around_the_todos(sections)
    before[:1] = [f"{text}\n\n{_how(lab)}" for text in before[:1]]
    code = pieces_of_code(solution, {name: todo.id for name, todo in lab.todo_of_name.items()})
    cells = [
        *map(_reading, [*before, *_docstring(solution)]),
        _given("imports", _imports(code, tells)),
        *_todos(lab, points, by_todo, code),
        *_closing(after, explain),
    ]
    notebook = new_notebook(cells=list(_numbered(cells)))
    notebook.metadata.kernelspec = dict(LEARNER)
    notebook.metadata.language_info = {"name": "python"}
    notebook.metadata.infralens = {"lab": lab.id, "kit": __version__}
    nbformat.validate(notebook)
    return notebook


def call_of(lab: Lab, todo: Todo) -> str:
    """The todo's name as commands and check cells take it."""
    return todo.id if lab.track == DEFAULT_TRACK else f"{lab.track}/{todo.id}"


def notebook_of(lab: Lab) -> str:
    """What the lab's notebook is called, without `.ipynb`."""
    return lab.file.removesuffix(".py")


# The page


def _reachable(page: str, lab: Lab) -> str:
    """The page with links that lead somewhere in the repository said as what to run here.

    A figure lies in a file that a notebook does not have: its words stay.
    """

    def told(match: re.Match[str]) -> str:
        words, target = match[1], match[2]
        if found := HANDBOOK.fullmatch(target):
            return f"{words} (`%read {found[1]}{found[2] or ''}`)"
        if target == lab.file:
            return f"{words} `{lab.file}`"
        if found := LAB.fullmatch(target):
            track = found[1] or lab.track
            other = found[2] if track == DEFAULT_TRACK else f"{track}/{found[2]}"
            return f"{words} (`%read {other}`)"
        outside = re.match(r"[a-z]+:|#", target)
        return match[0] if outside else words

    parts = FENCED.split(with_figures_told(page))  # what is code is at odd places
    parts[::2] = [COMMENT.sub("", LINK.sub(told, part)) for part in parts[::2]]
    return "".join(parts)


def _with_points(page: str, lab: Lab, points: Mapping[str, int]) -> str:
    """The page with this course's points where it names the kit's."""
    total = sum(points[todo.id] for todo in lab.todos)
    page = re.sub(rf"\b{lab.max_score} points\b", f"{total} points", page, count=1)
    for todo in lab.todos:
        if points[todo.id] != todo.points:
            worth = f"{points[todo.id]} point{'s' * (points[todo.id] != 1)}"
            heading = rf"^(### .*\b{re.escape(todo.id)} ·.*)\(\d+ points?( each)?\)[ \t]*$"
            page = re.sub(heading, rf"\1({worth})", page, flags=re.MULTILINE)
    return page


def _sections(page: str, lab: Lab) -> Iterator[Section]:
    """The page by its headings; a heading below that describes no todo stays with what it is in."""
    ids = {todo.id for todo in lab.todos}
    held: Section | None = None
    for heading, text in pieces(page, 3):
        todos = tuple(name for name in re.findall(r"\b(\d+\.\d+) ·", heading) if name in ids)
        if held is not None and text.startswith("###") and not todos:
            held = Section(held.heading, f"{held.text}\n\n{text}", held.todos)
            continue
        if held is not None:
            yield held
        held = Section(heading, text, todos)
    if held is not None:
        yield held


def _around_the_todos(
    sections: list[Section],
) -> tuple[list[str], dict[str, str], list[Section]]:
    """What stands before the todos' sections, those by todo, and what stands after."""
    at = [index for index, section in enumerate(sections) if section.todos]
    if not at:
        return [section.text for section in sections], {}, []
    by_todo: dict[str, str] = {}
    for section in sections[at[0] : at[-1] + 1]:
        for todo in section.todos:
            first = section.todos[0]
            by_todo[todo] = section.text if todo == first else f"Described with {first}, above."
    before = [section.text for section in sections[: at[0]]]
    return before, by_todo, sections[at[-1] + 1 :]


def _how(lab: Lab) -> str:
    """How to work in the notebook, with commands of this very lab in it."""
    page = lab.reading.removeprefix("handbook/").replace(".md", "")
    return HOW.format(todo=call_of(lab, lab.todos[0]), lab=lab.short, page=page).strip()


def _docstring(solution: str) -> Iterator[str]:
    """What the file says at its head: symbols, and what may be imported."""
    said = ast.get_docstring(ast.parse(solution))
    if said:
        yield f"## The head of the file\n\n```text\n{said.strip()}\n```"


# The cells


def _imports(code: Iterable[Piece], tells: str) -> str:
    """The extension, how much it tells, and all that is given before the first answer."""
    given = next(iter(code), Piece(None, ""))
    said = f'{TELLS_NAME} = "{tells}"  # of a wrong answer, while the deadline is ahead'
    lines = ["%load_ext infralens", *([said] if tells != "everything" else [])]
    return "\n".join([*lines, "", given.text if given.todo is None else ""]).strip()


def _todos(
    lab: Lab, points: Mapping[str, int], by_todo: Mapping[str, str], code: tuple[Piece, ...]
) -> Iterator[NotebookNode]:
    """For each todo what is asked, the answer and the check; in between what else is given."""
    answers: dict[str, str] = {}
    given: dict[str, list[str]] = {}
    last = ""
    for piece in code:
        if piece.todo is not None:
            last = piece.todo
            joined = answers.get(last)
            answers[last] = piece.text if joined is None else f"{joined}\n\n\n{piece.text}"
        elif last:  # what stands before the first answer is with the imports
            given.setdefault(last, []).append(piece.text)
    for todo in lab.todos:
        name = todo.id.replace(".", "-")
        asked = by_todo.get(todo.id, "")
        if not asked.startswith("#"):
            asked = f"### {todo.id} · {todo.title} ({points[todo.id]} points)\n\n{asked}".strip()
        yield _cell(new_markdown_cell(asked), f"read-{name}", locked=True)
        if todo.id in answers:
            yield _cell(new_code_cell(answers[todo.id]), f"answer-{name}", solution=True)
        check = new_code_cell(f'check("{call_of(lab, todo)}")')
        yield _cell(check, f"check-{name}", locked=True, points=points[todo.id])
        for number, text in enumerate(given.get(todo.id, []), start=1):
            yield _given(f"given-{name}-{number}", text)


def _closing(after: list[Section], explain: int) -> Iterator[NotebookNode]:
    """The rest of the page; the interview is the learner's to write, ours stays in the source."""
    at = next((i for i, part in enumerate(after) if anchor(part.heading) == INTERVIEW), len(after))
    model = after[at].text.partition("\n")[2].strip() if at < len(after) else ""
    for part in after[:at]:
        yield _reading(part.text)
    worth = f"; it is worth {explain} point{'s' * (explain != 1)}" if explain else ""
    yield _reading(PROMPT.format(worth=worth).strip())
    text = model or "What you expect here: learners are not shown it."
    yield _cell(new_markdown_cell(text), "explain", solution=True, points=explain)
    for part in after[at + 1 :]:
        yield _reading(part.text)


def _reading(text: str) -> NotebookNode:
    return _cell(new_markdown_cell(text), "read", locked=True)


def _given(name: str, text: str) -> NotebookNode:
    return _cell(new_code_cell(text), name, locked=True)


def _cell(
    cell: NotebookNode,
    name: str,
    *,
    locked: bool = False,
    solution: bool = False,
    points: int | None = None,
) -> NotebookNode:
    of_nbgrader: dict[str, Any] = {
        "schema_version": 3,
        "grade_id": name,
        "locked": locked,
        "solution": solution,
        "grade": points is not None,
        "task": False,
    }
    if points is not None:
        of_nbgrader["points"] = points
    cell.metadata.nbgrader = of_nbgrader
    return cell


def _numbered(cells: Iterable[NotebookNode]) -> Iterator[NotebookNode]:
    """The cells with a number for each that only reads; a cell's id is its name."""
    number = 0
    for cell in cells:
        if cell.metadata.nbgrader.grade_id == "read":
            number += 1
            cell.metadata.nbgrader.grade_id = f"read-{number}"
        cell.id = cell.metadata.nbgrader.grade_id
        yield cell
