"""What several commands choose by: labs, todos, files, the workspace, the terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from infralens.labs import (
    BadLabError,
    Lab,
    UnknownLabError,
    find_lab,
    find_labs,
    missing_module,
)

if TYPE_CHECKING:
    from rich.console import Console

    from infralens.workspace import Workspace

from infralens.cli.group import GRADER_FAILED, BrokenKitError, UsageError


def all_labs() -> tuple[Lab, ...]:
    extra = click.get_current_context().obj or []
    try:
        return find_labs(extra)
    except BadLabError as error:
        raise UsageError(str(error)) from None


def lab_named(name: str) -> Lab:
    try:
        return find_lab(name, all_labs())
    except UnknownLabError as error:
        raise UsageError(str(error)) from None


def complete_labs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [lab.short for lab in find_labs() if lab.short.startswith(incomplete)]


def _complete_todos(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    ids = (todo.id for lab in find_labs() for todo in lab.todos)
    return [todo for todo in ids if todo.startswith(incomplete)]


def program() -> str:
    """How this command was called, for the commands that it prints: they can be pasted."""
    import shlex

    folders = click.get_current_context().obj or []
    shown = [str(path) for path in folders]
    return " ".join(["infralens", *(f"--labs {shlex.quote(path)}" for path in shown)])


def _once(ctx: click.Context, param: click.Parameter, values: tuple[Path, ...]) -> Path | None:
    if len(values) > 1:
        raise UsageError(f"--{param.name} was given {len(values)} times; give it once.")
    return values[0] if values else None


def file_option(help_: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    kind: Any = click.Path(path_type=Path)
    return click.option("--file", type=kind, multiple=True, callback=_once, help=help_)


def _verbosely(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """Until the command ends, what examiners print is shown as it comes."""
    import os

    from infralens.examiner.service.log import HERE, VARIABLE

    if not value:
        return
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = HERE

    @ctx.call_on_close
    def as_it_was() -> None:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


verbose_option = click.option(
    "-v",
    "--verbose",
    is_flag=True,
    expose_value=False,
    callback=_verbosely,
    help="Show what the examiner prints.",
)


lab_argument = click.argument("lab", shell_complete=complete_labs)


todo_argument = click.argument("todo", shell_complete=_complete_todos)


LEAST_COLUMNS, DEFAULT_COLUMNS = 10, 80


def terminal(**options: Any) -> Console:
    from rich.console import Console

    console = Console(highlight=False, emoji=False, markup=False, **options)
    if console.width < LEAST_COLUMNS:  # COLUMNS=0, as some terminals say before they are drawn
        console.width = DEFAULT_COLUMNS
    return console


def require_writable(output: Path) -> None:
    """UsageError for a file that could not be written, before anything is started for it."""
    import os

    if not output.name:
        raise UsageError("--output needs the name of a file.")
    try:
        nearest, there = output.resolve().parent, output.exists()
    except FileNotFoundError:  # of the current folder, which every command tells alike
        raise
    except OSError as error:  # no file can be called so
        raise UsageError(f"{str(output)[:60]}… cannot be written: {error.strerror}.") from None
    except RuntimeError:  # as pathlib says of links in a circle
        raise UsageError(f"{output} cannot be written: its links lead in a circle.") from None
    if not nearest.is_dir():
        raise UsageError(f"{output} cannot be written: there is no folder {nearest}.")
    if not os.access(nearest, os.W_OK) or (there and not os.access(output, os.W_OK)):
        raise UsageError(f"{output} cannot be written: Permission denied.")


def require_readable(path: Path) -> None:
    """UsageError where there is no file to grade. The examiner reads it once more, itself."""
    from infralens.examiner.candidate.submission import read_bytes
    from infralens.examiner.errors import UnreadableError

    try:
        read_bytes(path)
    except UnreadableError as error:
        raise UsageError(str(error)) from None


def require_no_link(path: Path) -> None:
    """UsageError where a link is on the way to what a revision is asked for."""
    from infralens.examiner.candidate.submission import link_on_the_way

    link = link_on_the_way(path)
    if link is not None:
        raise UsageError(f"{link} is a symbolic link; name the file where it lies.")


def require_a_grader(*labs: Lab) -> None:
    """What stands in the way of every grade of these labs, told before the first."""
    from infralens.doctor import complaints

    for lab in labs:
        missing = missing_module(lab)
        if missing is not None:
            raise BrokenKitError(f"{lab.short} loads {missing}, which is not installed here.")
    for sentence, fatal in complaints():
        click.echo(f"infralens: {sentence}", err=True)
        if fatal:
            click.get_current_context().exit(GRADER_FAILED)


def todo_ids(lab: Lab, names: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return tuple(lab.todo(name).id for name in names)
    except UnknownLabError as error:
        raise UsageError(str(error)) from None


def workspace_or_usage(here: Workspace | None, workspace: Any) -> Workspace:
    if here is not None:
        return here
    try:
        found: Workspace = workspace.require_workspace(Path.cwd())
    except workspace.NoWorkspaceError as error:
        raise UsageError(str(error)) from None
    return found


def next_lab(here: Workspace) -> Lab:
    from infralens import workspace

    progress, _ = workspace.read_progress(here)
    labs = all_labs()
    return next((lab for lab in labs if progress.score(lab) < lab.max_score), labs[0])
