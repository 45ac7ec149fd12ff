"""For instructors: audit."""

from __future__ import annotations

from pathlib import Path

import click

from infralens.cli.choosing import all_labs, terminal
from infralens.cli.group import PASSED, POINTS_MISSING, UsageError, main, say


@main.command()
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option("--ref", help="Only what this git revision of the repository at PATH reaches.")
@click.pass_context
def audit(ctx: click.Context, path: Path, ref: str | None) -> None:
    """For instructors: look at PATH for answers given away.

    A line of a solution or of a suite that learners do not get anyway is one. Folders, notebooks,
    archives, git objects and bytecode are looked through, base64 and pictures are not. One line a
    leak; exit code 1 when there is one, or something that cannot be looked into.
    """
    from infralens.course.audit import Auditor
    from infralens.revisions import RevisionError
    from infralens.show.harmless import one_line

    found = 0
    try:
        with terminal(stderr=True).status("looking …"):
            auditor = Auditor(all_labs())
            for finding in auditor.audit_reached(path, ref) if ref else auditor.audit(path):
                click.echo(one_line(str(finding)))
                found += 1
    except RevisionError as error:
        raise UsageError(str(error)) from None
    if not found:
        say(f"{path}{f' at {ref}' if ref else ''}: no line of an answer or a suite.")
    ctx.exit(POINTS_MISSING if found else PASSED)
