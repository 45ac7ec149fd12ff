"""For authors: check, wrong, new."""

from __future__ import annotations

from pathlib import Path

import click

from infralens.cli.choosing import (
    all_labs,
    complete_labs,
    file_option,
    lab_argument,
    lab_named,
    require_readable,
    terminal,
    todo_ids,
    verbose_option,
)
from infralens.cli.group import GRADER_FAILED, PASSED, POINTS_MISSING, UsageError, main, say
from infralens.labs import Lab


@main.command()
@click.option(
    "--lab",
    "names",
    multiple=True,
    shell_complete=complete_labs,
    help="Only this lab.",
)
@click.option("--ref", help="Only grade what stands at this git revision: full marks, or a line.")
@click.option(
    "--repo",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The repository of --ref; by default the one around this folder.",
)
@click.option(
    "--seeds",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="Seeds for the solution; each misconception has one in five of them.",
)
@click.option("--jobs", type=click.IntRange(1), help="Labs proven at the same time.")
@click.option("--margins", is_flag=True, help="Print the margins of every check.")
@click.option("--confusions", is_flag=True, help="Judge the wrong answers without a name as well.")
@click.option("--despite-texts", is_flag=True, help="Grade also where its texts have faults.")
@click.option("--write", is_flag=True, help="Write stubs, heads and footers anew first.")
@verbose_option
@click.pass_context
def check(
    ctx: click.Context,
    names: tuple[str, ...],
    ref: str | None,
    repo: Path | None,
    seeds: int,
    jobs: int | None,
    margins: bool,
    confusions: bool,
    despite_texts: bool,
    write: bool,
) -> None:
    """For authors: prove every lab. One line a fault; exit code 1 when there is one.

    Faults of a lab's texts come at once; it is graded, which takes minutes, when there is none.
    Wrong answers that go under another's name are listed: what is said of them should be true.

    With --ref nothing is proven: solutions/ (else exercises/) of that revision is graded.
    """
    from infralens.authoring.checking import (
        check_labs,
        write_stubs,
    )
    from infralens.authoring.signposts import write_signposts
    from infralens.authoring.table import show_proofs

    labs = tuple(lab_named(name) for name in names) or all_labs()
    if ref is not None:
        _require_alone(ctx, ("ref", "repo", "names"))
        ctx.exit(_check_ref(labs, repo or Path.cwd(), ref))
    if repo is not None:
        raise UsageError("--repo is the repository of --ref: name a revision.")
    if write:
        for path in (*write_stubs(labs), *write_signposts(all_labs())):
            say(f"written: {path}")
    proofs = check_labs(
        labs,
        seeds=seeds,
        jobs=jobs,
        console=terminal(stderr=True),
        despite_texts=despite_texts,
        nameless=confusions,
    )
    show_proofs(proofs, terminal(), margins=margins)
    ctx.exit(PASSED if not any(proof.faults for proof in proofs) else POINTS_MISSING)


def _require_alone(ctx: click.Context, known: tuple[str, ...]) -> None:
    """UsageError for an option that says how labs are proven, where they are only graded."""
    for option in ctx.command.params:
        name = option.name or ""
        given = ctx.get_parameter_source(name)
        if given is click.core.ParameterSource.COMMANDLINE and name not in known:
            raise UsageError(f"--ref grades and proves nothing: it takes no {option.opts[0]}.")


def _check_ref(labs: tuple[Lab, ...], repository: Path, ref: str) -> int:
    """Grade labs at a revision: one line for each without full marks. The exit code."""
    from infralens.authoring.at_ref import grade_at
    from infralens.revisions import RevisionError
    from infralens.show.harmless import one_line

    code = PASSED
    full = 0
    with terminal(stderr=True).status("starting torch and diffusers …") as status:
        try:
            for done in grade_at(
                labs, repository, ref, on_lab=lambda lab: status.update(f"{lab.short} at {ref}")
            ):
                full += done.problem is None
                if done.problem is not None:
                    click.echo(one_line(done.problem))
                    broken = done.report is not None and done.report.grader_error is not None
                    code = max(code, GRADER_FAILED if broken else POINTS_MISSING)
        except RevisionError as error:
            raise UsageError(str(error)) from None
    click.echo(f"{full} of {len(labs)} labs have full marks at {ref}.")
    return code


@main.command()
@lab_argument
@click.argument("todo")
@click.argument("name")
@file_option("The edited copy of the solution; by default the lab's file in this folder.")
@click.option("--write", is_flag=True, help="Write the entry at the end of the lab's wrong.yaml.")
@click.pass_context
def wrong(
    ctx: click.Context, lab: str, todo: str, name: str, file: Path | None, write: bool
) -> None:
    """For authors: make an edited solution an entry of wrong.yaml.

    Prints the entry, what catches it, and under which names it goes. Exit code 1 when it is paid.
    """
    from infralens.authoring.entries import NoEntryError, append, entry_text, new_entry
    from infralens.grading import grade

    chosen = lab_named(lab)
    (todo_id,) = todo_ids(chosen, (todo,))
    path = file or Path(chosen.file)
    require_readable(path)
    try:
        entry = new_entry(chosen, todo_id, name, path.read_text(encoding="utf-8"))
    except NoEntryError as error:
        raise UsageError(str(error)) from None
    click.echo(entry_text(entry))
    report = grade(chosen, path, todos=[todo_id], isolation="process")
    if report.grader_error:
        raise UsageError(f"It cannot be graded: {report.grader_error}")
    failed = [check for check in report.todos[0].checks if check.status in ("failed", "error")]
    for check in failed:
        also = f" (named {check.misconception})" if check.misconception else ""
        click.echo(f"caught by {check.name}{also}: {check.message}")
    if not failed:
        click.echo(f"paid: {todo_id} has full marks with seed {report.seed}. Mend the suite first.")
    if write:
        say(f"written: {append(chosen, entry)}")
    ctx.exit(PASSED if failed else POINTS_MISSING)


@main.command()
@click.argument("track")
@click.argument("lab")
@click.argument("title")
@click.option(
    "--into",
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder of labs of your own; by default this checkout.",
)
@click.option("--file", help="The submission's file; by default the title's words.")
def new(track: str, lab: str, title: str, into: Path | None, file: str | None) -> None:
    """For authors: write the files of a new LAB, with this TITLE."""
    import shlex

    from infralens.authoring.beginning import BadNameError, begin_lab

    try:
        written = begin_lab(track, lab, title, into, file)
    except BadNameError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be written: {error.strerror}.") from None
    for path in written:
        say(f"written: {path}")
    where = f" --labs {shlex.quote(str(into))}" if into else ""
    click.echo(
        f"Next: fill them in; `infralens{where} check --lab {track}/{lab}` says what is left."
    )
