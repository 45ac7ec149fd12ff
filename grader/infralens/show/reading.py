"""Lab pages and handbook sections, rendered for a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markdown import Markdown
from rich.rule import Rule

from infralens.labs import Lab
from infralens.pages import section


def show_page(lab: Lab, console: Console) -> None:
    """Print the lab's page, then the handbook section that it points to."""
    name, _, wanted = lab.reading.partition("#")
    console.print(Markdown(lab.page.read_text(encoding="utf-8")))
    handbook = lab.place.exercises / name
    if handbook.is_file():
        console.print(Rule(name))
        console.print(Markdown(section(handbook.read_text(encoding="utf-8"), wanted)))
