"""For the kit itself: init, doctor, completion."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from infralens.cli.choosing import program, terminal
from infralens.cli.group import PASSED, POINTS_MISSING, UsageError, main, say
from infralens.labs import (
    place_at,
)

ROOM_FOR_COLUMNS = 64  # for names, values and advice side by side


@main.command()
@click.argument("folder", default=".", type=click.Path(file_okay=False, path_type=Path))
def init(folder: Path) -> None:
    """Make a workspace with the exercises in FOLDER, or here."""
    from infralens import workspace

    try:
        places = [place_at(extra) for extra in click.get_current_context().obj or []]
        _, written, kept = workspace.init(folder, places)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}.") from None
    kept_note = f"; {kept} that were there are kept" if kept else ""
    say(f"{written} files written to {folder}{kept_note}.")
    first = "" if folder.resolve() == Path.cwd() else f"`cd {shlex.quote(str(folder))}`, then "
    say(f"Next: {first}`{program()} list` shows the labs.")


@main.command()
@click.pass_context
def doctor(ctx: click.Context) -> None:
    """Say what is installed, which device and which isolation."""
    from rich.table import Table
    from rich.text import Text

    from infralens.doctor import examine

    console, table = terminal(), Table.grid(padding=(0, 2))
    findings = examine()
    for finding in findings:
        mark = Text("ok", "green") if finding.good else Text("!!", "red")
        advice = Text(finding.advice, "dim")
        if console.width >= ROOM_FOR_COLUMNS:
            table.add_row(mark, finding.name, finding.value, advice)
            continue
        table.add_row(mark, f"{finding.name}  {finding.value}")  # a column would cut words off
        if finding.advice:
            table.add_row("", advice)
    console.print(table)
    for finding in findings:
        if finding.listed:
            console.print(f"\n{finding.name.strip()}: {', '.join(finding.listed)}", style="dim")
    ctx.exit(PASSED if all(finding.good for finding in findings) else POINTS_MISSING)


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for SHELL.

    To use it: eval "$(infralens completion bash)".
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(main, {}, "infralens", "_INFRALENS_COMPLETE").source())
