"""For instructors: release."""

from __future__ import annotations

from pathlib import Path

import click

from infralens.cli.choosing import all_labs
from infralens.cli.group import UsageError, main
from infralens.labs import own_place, place_at


@main.group()
def release() -> None:
    """For instructors: make what a course hands out."""


@release.command("repo")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--grader-source",
    metavar="SOURCE",
    help="What pip installs the kit from: a path, a package, a git address.",
)
@click.option("--with-solutions", is_flag=True, help="Add a branch solutions, of its own history.")
def repo(folder: Path, grader_source: str | None, with_solutions: bool) -> None:
    """Make a git repository of the labs at FOLDER, for learning alone.

    Or release anew into one that was made before: what learners did there is kept.
    """
    from infralens.course.plumbing import GitError
    from infralens.course.repository import UnfitFolderError, release_repository

    if grader_source is not None and (not grader_source.isprintable() or "${{" in grader_source):
        raise UsageError("--grader-source is one line that pip can install, without `${{`.")
    extra = click.get_current_context().obj or []
    try:
        done = release_repository(
            folder,
            all_labs(),
            [own_place(), *(place_at(path) for path in extra)],
            source=grader_source,
            with_solutions=with_solutions,
        )
    except (UnfitFolderError, GitError) as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}.") from None
    said = f"commit {done.main[:10]}" if done.main else "nothing is new"
    click.echo(f"{folder}, branch main: {done.files} files, {said}.")
    for name in done.kept:
        click.echo(f"kept: {name} was changed there, and is newer in the kit")
    if with_solutions:
        said = f"commit {done.solutions[:10]}" if done.solutions else "nothing is new"
        click.echo(f"{folder}, branch solutions: {said}.")
