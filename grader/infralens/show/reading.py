"""Lab pages and handbook sections, rendered for a terminal."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown
from rich.rule import Rule

from infralens.labs import Lab
from infralens.pages import section


def show_page(lab: Lab, console: Console) -> None:
    """Print the lab's page, then the handbook section that it points to."""
    console.print(_rendered(lab.page.read_text(encoding="utf-8")))
    text = handbook_text(lab.place.exercises, lab.reading)
    if text is not None:
        console.print(Rule(lab.reading))
        console.print(_rendered(text))


def show_text(text: str, console: Console) -> None:
    """Print a Markdown text."""
    console.print(_rendered(text))


def handbook_text(exercises: Path, target: str) -> str | None:
    """The text of `handbook/page.md#section`, or None where there is no such page or section."""
    name, _, wanted = target.partition("#")
    page = exercises / name
    if not page.is_file() or not name.startswith("handbook/"):
        return None
    return section(page.read_text(encoding="utf-8"), wanted) or None


def _rendered(text: str) -> Markdown:
    return Markdown(text, hyperlinks=False)  # a terminal shows where a link leads
