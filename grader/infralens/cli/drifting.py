"""For authors: drift."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from infralens.cli.choosing import all_labs, complete_labs, lab_named
from infralens.cli.group import PASSED, POINTS_MISSING, UsageError, main

if TYPE_CHECKING:
    from infralens.drift.comparing import Drift
    from infralens.labs import Lab


@main.command()
@click.argument("old", type=click.Path(exists=True, path_type=Path))
@click.argument("new", type=click.Path(exists=True, path_type=Path))
@click.option("--lab", "names", multiple=True, shell_complete=complete_labs, help="Only this lab.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=1, show_default=True)
@click.option("--format", "form", type=click.Choice(["text", "json", "html"]), default="text")
@click.pass_context
def drift(
    ctx: click.Context, old: Path, new: Path, names: tuple[str, ...], seed: int, form: str
) -> None:
    """For authors: what changed in the library from OLD to NEW.

    Each is a folder that `pip install --no-deps --target FOLDER diffusers==X` made, or an
    interpreter. Every value that a suite or a lab's questions take from the library is worked out
    under both, on the same inputs; what is not the same up to rounding has a line.

    Exit code: 0 nothing changed, 1 something did, 2 wrong usage.
    """
    import json
    from dataclasses import asdict

    from infralens.drift.comparing import compared
    from infralens.drift.places import NoReleaseError, place_at, record_at
    from infralens.drift.recording import file_of, read

    labs = tuple(lab_named(name) for name in names) or all_labs()
    found: dict[Lab, Drift] = {}
    with tempfile.TemporaryDirectory(prefix="infralens-") as folder:
        sides = [Path(folder, side) for side in ("old", "new")]
        try:
            for path, side in zip([place_at(path) for path in (old, new)], sides, strict=True):
                side.mkdir()
                record_at(path, labs, seed, side, _progress)
        except NoReleaseError as error:
            raise UsageError(str(error)) from None
        for lab in labs:
            before, after = (read(file_of(lab, side)) for side in sides)
            found[lab] = compared(before, after)
        releases = [before.release, after.release]
    if form == "json":
        told = {"seed": seed, "releases": releases}
        click.echo(json.dumps({**told, "labs": {of.id: asdict(one) for of, one in found.items()}}))
    elif form == "html":
        from infralens.drift.page import to_html

        click.echo(to_html(found, releases, seed))
    else:
        click.echo(f"diffusers {' → '.join(releases)}   seed {seed}")
        for lab, one in found.items():
            _show(lab, one)
    ctx.exit(POINTS_MISSING if any(one.changes for one in found.values()) else PASSED)


def _progress(lab: str) -> None:
    if sys.stderr.isatty():
        click.echo(f"{lab} …", err=True)


def _show(lab: Lab, drift: Drift) -> None:
    """A line a lab, and one for each value that changed."""
    told = ", ".join(f"{count} {kind}" for kind, count in drift.counts.items() if count)
    click.echo(f"\n{lab.short} · {lab.title}   {told or 'nothing asked of the library'}")
    for change in drift.changes:
        click.echo(f"  {change.kind:<9}  {change.where}\n             {change.text}")
    if drift.changes:
        click.echo(f"             read {lab.reading}")
