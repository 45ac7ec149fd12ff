"""Lab pages and handbook sections, rendered for a terminal."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent
from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Markdown, MarkdownElement
from rich.rule import Rule
from rich.syntax import Syntax

from infralens.labs import Lab
from infralens.pages import section


def show_page(lab: Lab, console: Console) -> None:
    """Print the lab's page, then the handbook section that it points to."""
    show_text(lab.page.read_text(encoding="utf-8"), console)
    text = handbook_text(lab.place.exercises, lab.reading)
    if text is not None:
        console.print(Rule(lab.reading))
        show_text(text, console)


def show_text(text: str, console: Console) -> None:
    """Print a Markdown text."""
    # A terminal shows where a link leads; code that is wider than it is not cut off.
    console.print(_Page(text, hyperlinks=False), crop=False)


def handbook_text(exercises: Path, target: str) -> str | None:
    """The text of `handbook/page.md#section`, or None where there is no such page or section."""
    name, _, wanted = target.partition("#")
    page = exercises / name
    if not page.is_file() or not name.startswith("handbook/"):
        return None
    return section(page.read_text(encoding="utf-8"), wanted) or None


class _Code(CodeBlock):
    """Code and diagrams keep their lines in a narrow terminal: they can be copied and followed."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = indent(str(self.text).rstrip(), "  ")
        text = Syntax(code, self.lexer_name, theme="ansi_dark").highlight(code)
        text.rstrip()
        text.no_wrap, text.overflow = True, "ignore"
        yield text


class _Page(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "fence": _Code,
        "code_block": _Code,
    }
