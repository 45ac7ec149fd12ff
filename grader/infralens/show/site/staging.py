"""The pages of the site as Markdown: those of the exercises, with hints, checkpoints and an index.

What a page says stands in the exercises; here it only gets what a terminal has commands for: the
hints of a todo and the answers of the checkpoints, each to be unfolded.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from infralens.curriculum import read_curriculum
from infralens.labs import Lab, Place, Todo, own_place
from infralens.pages import FENCED, pieces, title
from infralens.show.site.errors import SiteError

Answers = Callable[[Lab], Sequence[str]]  # of a lab's checkpoints, each with its explanation
Sources = Callable[[Lab, Todo], str]  # the library's own lines in Markdown; empty for none

INDEX = "index"
LAB_PAGE = "README.md"
COMMENT = re.compile(r"^<!--.*?-->\n+", re.MULTILINE)
TO_A_LAB_PAGE = re.compile(rf"(\]\([^)\s]*?){re.escape(LAB_PAGE)}")
BESIDE = re.compile(r"^\* (?:Before|Next): .*\n", re.MULTILINE)  # the site has them as buttons
ITEM = re.compile(r"^(?=\d+\. )", re.MULTILINE)
CODE = re.compile(r"(`[^`\n]+`)")
MARKS = re.compile(r"([\\*_\[\]<>&|~])")


@dataclass(frozen=True)
class Staged:
    """A page of the site: where it lies, without its ending, what it is called, and how long it is.

    `effort` is empty for a lab that no curriculum lists.
    """

    name: str
    title: str
    effort: str
    is_lab: bool


def stage(
    labs: Sequence[Lab],
    folder: Path,
    answers: Answers,
    tell: Callable[[str], None],
    sources: Sources = lambda lab, todo: "",
) -> tuple[Staged, ...]:
    """Write the pages of all labs and of their handbooks into a folder, in the order of reading."""
    by_place: dict[Place, dict[str, Lab]] = {own_place(): {}}
    for lab in labs:
        by_place.setdefault(lab.place, {})[lab.id] = lab
    staged: list[Staged] = []
    for number, (place, listed) in enumerate(of for of in by_place.items() if of[1]):
        # The kit's own pages lie at the root; those of a further folder of labs below its number.
        prefix = "" if number == 0 else f"more-{number}/"
        figures = place.exercises / "handbook" / "figures"
        if figures.is_dir():
            shutil.copytree(figures, folder / prefix / "handbook" / "figures")
        for page in _pages_of(place, listed):
            if page.lab is not None:
                tell(f"the checkpoints of {page.lab.short}")
            text = (
                page.text if page.lab is None else _lab_page(page.text, page.lab, answers, sources)
            )
            path = folder / prefix / f"{page.name}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_as_staged(text), encoding="utf-8")
            if page.lab is not None:
                shutil.copyfile(page.lab.stub, path.parent / page.lab.file)
            called = title(page.text).partition(":")[0]
            staged.append(Staged(f"{prefix}{page.name}", called, page.effort, page.lab is not None))
    (folder / f"{INDEX}.md").write_text(_index(staged), encoding="utf-8")
    return tuple(staged)


@dataclass(frozen=True)
class _Page:
    name: str
    text: str
    effort: str
    lab: Lab | None = None


def _pages_of(place: Place, labs: Mapping[str, Lab]) -> Iterator[_Page]:
    """The pages of a folder of labs: those that its curriculum lists, then the others."""
    path = read_curriculum(place)
    for step in path.steps:
        lab = labs.get(step.name)
        page = place.exercises / "handbook" / f"{step.name}.md"
        if lab is not None:
            yield _page_of(lab, step.effort)
        elif not step.is_lab and page.is_file():
            yield _Page(f"handbook/{step.name}", page.read_text(encoding="utf-8"), step.effort)
    for page in sorted((place.exercises / "handbook").glob("*.md")):
        if path.step(page.stem) is None:
            yield _Page(f"handbook/{page.stem}", page.read_text(encoding="utf-8"), "")
    for lab in labs.values():
        if path.step(lab.id) is None:
            yield _page_of(lab, "")


def _page_of(lab: Lab, effort: str) -> _Page:
    if not lab.page.is_file():
        raise SiteError(f"{lab.short} has no page yet: write {lab.page}.")
    return _Page(
        f"{lab.track}/{lab.folder}/{INDEX}", lab.page.read_text(encoding="utf-8"), effort, lab
    )


def _as_staged(text: str) -> str:
    parts = FENCED.split(COMMENT.sub("", BESIDE.sub("", text)))  # what is code is at odd places
    parts[::2] = [TO_A_LAB_PAGE.sub(rf"\1{INDEX}.md", part) for part in parts[::2]]
    return "".join(parts)


def _lab_page(text: str, lab: Lab, answers: Answers, sources: Sources) -> str:
    """The page of a lab with the hints at its todos and the answers at its checkpoints."""
    todos = {todo.id: todo for todo in lab.todos}
    told = []
    for heading, part in pieces(text, deepest=3):
        number = heading.split(" ")[0] if heading else ""
        if number in todos:
            part = "\n\n".join([part, *_hidden_hints(todos[number].hints)])
            if lines := sources(lab, todos[number]):
                part += "\n\n" + _folded("source", "The library's own lines", f"\n{lines}\n")
        elif heading == "Checkpoints":
            part = _answered(part, lab, answers(lab))
        told.append(part)
    return "\n\n".join(told) + "\n"


def _hidden_hints(hints: Sequence[str]) -> Iterator[str]:
    """The hints as they are: many are code, which is not to be set, nor found by the search."""
    for number, hint in enumerate(hints, start=1):
        parts = CODE.split(escape(hint, quote=False))  # what is code is at odd places
        parts[1::2] = [f"<code>{part.strip('`')}</code>" for part in parts[1::2]]
        yield _folded("hint", f"Hint {number} of {len(hints)}", f"<p>{''.join(parts)}</p>")


def _answered(part: str, lab: Lab, answers: Sequence[str]) -> str:
    """The numbered questions of a page, each with its answer to unfold."""
    before, *questions = ITEM.split(part)
    if len(questions) != len(answers):
        raise SiteError(
            f"quiz.py of {lab.short} asks {len(answers)}, its page {len(questions)}: write the "
            "checkpoints alike."
        )
    told = [before]
    for question, answer in zip(questions, answers, strict=True):
        block = _folded("answer", "Answer", f"\n{as_markdown(answer)}\n").replace("\n", "\n   ")
        told.append(f"{question.rstrip()}\n\n   {block}\n\n")
    return "".join(told)


def _folded(kind: str, summary: str, html: str) -> str:
    """What is shown when its summary is clicked."""
    return f'<details class="{kind}">\n<summary>{summary}</summary>\n{html}\n</details>'


def as_markdown(text: str) -> str:
    """Plain text whose only marks are backticks, as Markdown that reads the same."""
    parts = CODE.split(text)
    parts[::2] = [MARKS.sub(r"\\\1", part) for part in parts[::2]]
    return "".join(parts)


def _index(staged: Sequence[Staged]) -> str:
    rows = "\n".join(
        f"| [{page.title}]({page.name}.md) | {'lab' if page.is_lab else 'page'} | {page.effort} |"
        for page in staged
    )
    entries = "\n".join(f"{page.title} <{page.name}>" for page in staged)
    return (
        "# InfraLens\n\n"
        "How diffusion inference really works, by writing it. Each lab gives you a stub, you fill "
        "it in, and `infralens grade` compares your functions with the live diffusers library.\n\n"
        "## In the order of reading\n\n"
        f"| page | kind | difficulty and time |\n| --- | --- | --- |\n{rows}\n\n"
        "```{toctree}\n:hidden:\n:caption: In the order of reading\n\n"
        f"{entries}\n```\n"
    )
