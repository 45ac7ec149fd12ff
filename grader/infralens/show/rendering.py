"""Lab pages and handbook sections, rendered for a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from textwrap import indent
from typing import ClassVar

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Markdown, MarkdownElement, TableElement
from rich.rule import Rule
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from infralens.curriculum import Curriculum
from infralens.labs import Lab, Place
from infralens.pages import FENCED, section, title, with_figures_told
from infralens.passages import Passage

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
EFFORT_COLUMNS = 64  # below, difficulty and minutes stand behind the title
PAGE_NAME = re.compile(r"handbook/\w[\w-]{0,99}\.md")


def show_page(lab: Lab, console: Console, program: str = "infralens") -> None:
    """Print the lab's page, then the handbook section that it points to."""
    text = lab.page.read_text(encoding="utf-8", errors="replace")
    show_passage(Passage(lab, text, lab.reading, whole=True), console, program)


def show_passage(passage: Passage, console: Console, program: str = "infralens") -> None:
    """Print it, then the section of the handbook; below a part, where the whole page is."""
    lab = passage.lab
    show_text(passage.text, console, lab.page, program)
    text = handbook_text(lab.place.exercises, passage.reading)
    if text is not None:
        console.print(Rule(passage.reading))
        page = lab.place.exercises / passage.reading.partition("#")[0]
        show_text(text, console, page, program)
    if not passage.whole:
        console.print(f"\nThe whole page: {program} read {lab.short}", style="dim", crop=False)


def show_text(
    text: str, console: Console, path: Path | None = None, program: str = "infralens"
) -> None:
    """Print a Markdown text. `path` is where it lies: its links lead from there."""
    # Code that is wider than the terminal is not cut off.
    console.print(_Page(with_told_links(text, path, program)), crop=False)


def show_contents(path: Curriculum, labs: Sequence[Lab], place: Place, console: Console) -> None:
    """Print pages and labs in their order, with difficulty and minutes; other labs come last."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    wide = console.width >= EFFORT_COLUMNS
    if wide:
        table.add_column(no_wrap=True)
    of_id = {lab.id: lab for lab in labs}
    for step in path.steps:
        lab = of_id.get(step.name)
        page = place.exercises / "handbook" / f"{step.name}.md"
        if lab is not None:
            name, called = Text(lab.short, "bold"), lab.title
        elif page.is_file():
            name, called = (
                Text(step.name),
                title(page.read_text(encoding="utf-8", errors="replace")),
            )
        else:
            continue
        effort = step.effort_in(console.encoding)
        table.add_row(name, *([called, effort] if wide else [f"{called} {effort}"]))
    for lab in labs:
        if path.step(lab.id) is None:  # of an author's own folder
            table.add_row(Text(lab.short, "bold"), lab.title)
    console.print(table)


def with_told_links(text: str, path: Path | None, program: str) -> str:
    """The page with each link clickable and, behind it, where it leads: an address or a command.

    An image is told in its words.
    """

    def told(match: re.Match[str]) -> str:
        words, target = match[1], match[2]
        if target.startswith("#"):
            return words
        if re.match(r"[a-z]+:", target):
            return match[0] if words == target else f"{match[0]} ({target})"
        name, _, part = target.partition("#")
        command = _command_for(name, part, program)
        uri = (path.parent / name).resolve().as_uri() if path is not None else target
        return f"[{words}]({uri}) ({f'`{command}`' if command else name})"

    pieces = FENCED.split(with_figures_told(text))  # what is code is at odd places
    pieces[::2] = [LINK.sub(told, piece) for piece in pieces[::2]]
    return "".join(pieces)


def _command_for(name: str, part: str, program: str) -> str | None:
    """The command that shows the page of a relative link, if one does."""
    if found := re.search(r"(?:^|/)handbook/([\w-]+)\.md$", name):
        return f"{program} read {found[1]}{f'#{part}' if part else ''}"
    if found := re.search(r"(lab-\d\d[\w-]*)(?:/README\.md)?/?$", name):
        return f"{program} read {found[1]}"
    found = re.fullmatch(r"(?:\./)?([\w-]+)\.md", name)  # from one page of the handbook to another
    if found and found[1] != "README":
        return f"{program} read {found[1]}{f'#{part}' if part else ''}"
    return None


def handbook_text(exercises: Path, target: str) -> str | None:
    """The text of `handbook/page.md#section`, or None where there is no such page or section."""
    name, _, wanted = target.partition("#")
    if not PAGE_NAME.fullmatch(name) or not (page := exercises / name).is_file():
        return None
    return section(page.read_text(encoding="utf-8", errors="replace"), wanted) or None


class _Code(CodeBlock):
    """Code and diagrams keep their lines in a narrow terminal: they can be copied and followed."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = indent(str(self.text).rstrip(), "  ")
        text = Syntax(code, self.lexer_name, theme="ansi_dark").highlight(code)
        text.rstrip()
        text.no_wrap, text.overflow = True, "ignore"
        yield text


class _Table(TableElement):
    """A table whose long names are broken where a column is narrow: none of a name is lost."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for part in super().__rich_console__(console, options):
            if isinstance(part, Table):
                for column in part.columns:
                    column.overflow = "fold"
            yield part


class _Page(Markdown):
    """A page of ours. Links to files are links too: markdown-it prints them as they are written."""

    def __init__(self, text: str) -> None:
        super().__init__(text, hyperlinks=True)
        parser = MarkdownIt().enable("strikethrough").enable("table")
        parser.validateLink = lambda url: True  # type: ignore[method-assign]  # made for this
        self.parsed = parser.parse(text)

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "fence": _Code,
        "code_block": _Code,
        "table_open": _Table,
    }
