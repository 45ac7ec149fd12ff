"""For reading and thinking: list, read, hint, quiz, reset, solution."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from infralens.labs import (
    Lab,
    UnknownLabError,
    find_todo,
    todo_name,
)

if TYPE_CHECKING:
    from rich.console import Console

    from infralens.quiz import Answer, Question

from infralens.cli.choosing import (
    all_labs,
    complete_labs,
    lab_argument,
    lab_named,
    program,
    terminal,
    todo_argument,
    workspace_or_usage,
)
from infralens.cli.group import BrokenKitError, UsageError, main, say

FILE_COLUMNS = 100  # from here a row has room for the lab's file
EFFORT_COLUMNS = 64  # and from here for difficulty and minutes in a column of their own
NEEDS_COLUMNS = 140  # and from here for the labs that come before it
PIPED_COLUMNS = 200  # for a program that reads a table: a line is a lab


@main.command("list")
def list_labs() -> None:
    """Show the labs, your points so far, and what is next."""
    from rich.table import Table
    from rich.text import Text

    from infralens import workspace
    from infralens.curriculum import curriculum_of, read_curriculum

    here = workspace.find_workspace(Path.cwd())
    progress, damage = workspace.read_progress(here) if here else (workspace.Progress(), None)
    if damage:
        click.echo(damage, err=True)
    console = terminal()
    if not console.is_terminal:
        console.width = PIPED_COLUMNS
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    labs = all_labs()
    table.add_column(no_wrap=True, min_width=max((len(lab.short) for lab in labs), default=0))
    table.add_column(overflow="fold")
    table.add_column(no_wrap=True, justify="right")
    effort = curriculum_of(labs)
    wide = effort and console.width >= EFFORT_COLUMNS
    roomy = console.width >= FILE_COLUMNS  # where it is narrow, titles need the room of the files
    told_needs = effort and console.width >= NEEDS_COLUMNS
    short = {lab.id: lab.short for lab in labs}
    for _ in range(bool(wide) + roomy + bool(told_needs)):
        table.add_column(no_wrap=True)
    upcoming = None
    for lab in labs:
        score = progress.score(lab)
        done = score == lab.max_score
        upcoming = upcoming or (None if done else lab)
        style = "green" if done else ""
        quizzed = progress.quizzes.get(lab.id)
        told = effort[lab.id].effort_in(console.encoding) if lab.id in effort else ""
        title = f"{lab.title} (quiz {quizzed[0]}/{quizzed[1]})" if quizzed else lab.title
        row: list[str | Text] = [
            Text(lab.short, "bold"),
            title if wide or not told else f"{title} {told}",
            Text(f"{score}/{lab.max_score}", style),
        ]
        row += [told] if wide else []
        row += [lab.file] if roomy else []
        before = [short[name] for name in effort[lab.id].needs if name in short] if told else []
        row += ["needs " + ", ".join(before)] if told_needs and before else []
        table.add_row(*row)
    console.print(table)
    if upcoming is not None:
        path = read_curriculum(upcoming.place)
        pages = [] if progress.score(upcoming) else path.pages_before(upcoming.id)
        first, *then = [*(page.name for page in pages), upcoming.short]
        after = f", then {', '.join(then)}" if then else ""
        click.echo(f"\nNext: {program()} read {first}{after}")


@main.command()
@click.argument("what", metavar="[LAB|TODO|PAGE]", required=False, shell_complete=complete_labs)
def read(what: str | None) -> None:
    """Show the page of a lab, or one of the handbook.

    Alone it shows what there is, in order. A lab's page comes with its handbook page, and what it
    says of a todo, `1.3`, with the section that serves it; `process` and handbook/process.md are
    one page, and `process#the-reverse-process` is a part of it.
    """
    from infralens.curriculum import read_curriculum
    from infralens.labs import own_place
    from infralens.pages import no_section
    from infralens.passages import passage_of
    from infralens.show.rendering import (
        handbook_text,
        show_contents,
        show_passage,
        show_text,
    )

    console = terminal()
    with _paged(console):
        if what is None:
            show_contents(read_curriculum(own_place()), all_labs(), own_place(), console)
            click.echo(f"\nRead one: {program()} read NAME")
            return
        in_handbook = what.startswith("handbook/")
        name, mark, part = what.removeprefix("handbook/").partition("#")
        page = f"handbook/{name.removesuffix('.md')}.md{mark}{part}"
        text = handbook_text(own_place().exercises, page)
        if text is not None:
            page_path = own_place().exercises / page.partition("#")[0]
            show_text(text, console, page_path, program())
            return
        whole = handbook_text(own_place().exercises, page.partition("#")[0]) if part else None
        if whole is not None:
            raise UsageError(no_section(f"The handbook's page {name}", part, whole))
        if in_handbook:
            raise UsageError(f"The handbook has no {what.removeprefix('handbook/')[:60]}.")
        try:
            passage = passage_of(what, all_labs())
        except UnknownLabError as error:
            raise UsageError(f"{error} `{program()} read` shows all pages.") from None
        show_passage(passage, console, program())


@contextmanager
def _paged(console: Console) -> Iterator[None]:
    """A pager where a person is reading; plain output elsewhere."""
    from infralens.show.paging import letting_styles_through

    if not console.is_terminal:
        yield
        return
    with letting_styles_through() as styled, console.pager(styles=styled, links=styled):
        yield


@main.command()
@todo_argument
@click.option("--again", is_flag=True, help="Show the hints seen so far, and no new one.")
def hint(todo: str, again: bool) -> None:
    """Give the next of the three hints for TODO.

    Where to look, the idea, almost the line.
    """
    from infralens import workspace

    try:
        lab, chosen = find_todo(todo, all_labs())
    except UnknownLabError as error:
        raise UsageError(str(error)) from None
    here = workspace.find_workspace(Path.cwd())
    key = f"{lab.track}/{chosen.id}"
    progress = workspace.read_progress(here)[0] if here else workspace.Progress()
    seen = min(progress.hints.get(key, 0) + (not again), len(chosen.hints))
    if here is not None and not again:
        try:
            with workspace.updating(here) as holder:
                holder[0] = holder[0].hinted(key, seen)
        except OSError as error:
            click.echo(f"This hint was not noted: {error.strerror or error}.", err=True)
    console = terminal()
    for number, text in enumerate(chosen.hints[:seen], start=1):
        console.print(
            f"{number}/{len(chosen.hints)}  {text}",
            style="" if number == seen else "dim",
        )
    if seen == 0 and chosen.hints:
        click.echo(f"No hint was shown yet. The first: {program()} hint {todo_name(lab, chosen)}")
    elif seen == len(chosen.hints):
        click.echo("That was the last hint.")


@main.command()
@lab_argument
def quiz(lab: str) -> None:
    """Ask the reading checkpoints of a lab, one by one."""
    from infralens import workspace
    from infralens.quiz import explained, questions_of

    chosen = lab_named(lab)
    console, waiting = terminal(), terminal(stderr=True)
    with waiting.status("working out the answers with diffusers …"):
        try:
            questions = questions_of(chosen)
            answers = [question.answer() for question in questions]
        except (Exception, SystemExit) as error:
            said = f"{type(error).__name__}: {error}"
            raise BrokenKitError(f"The quiz of {chosen.short} raises {said}.") from None
    if not questions:
        raise UsageError(f"{chosen.short} has no checkpoints.")
    click.echo("An empty line passes a question over.")
    right = 0
    for number, (question, answer) in enumerate(zip(questions, answers, strict=True), start=1):
        console.print(f"\n{number}/{len(questions)}  {question.text}")
        for letter, choice in zip("abcdefgh", question.choices, strict=False):
            console.print(f"  {letter}) {choice}")
        try:
            tries = _answered(question, answer)
        except click.Abort:
            click.echo(f"\nStopped. {right} of {number - 1} right so far.")
            return
        right += tries == 1
        word = {0: "Passed over", 1: "Right", 2: "Right now"}.get(tries, "No")
        console.print(f"{word}: {explained(question, answer)}")
    click.echo(f"\n{right} of {len(questions)} right at once.")
    here = workspace.find_workspace(Path.cwd())
    if here is not None:
        try:
            with workspace.updating(here) as holder:
                holder[0] = holder[0].quizzed(chosen, right, len(questions))
        except OSError as error:
            click.echo(f"This record was not kept: {error.strerror or error}.", err=True)


def _answered(question: Question, answer: Answer) -> int:
    """Ask until the answer is right, twice at most. Which try was right; 0 passed, 3 none was."""
    from infralens.quiz import expects, is_an_answer, is_right

    form = expects(answer, question.choices)
    for attempt in (1, 2):
        given = click.prompt(f"your answer ({form})", default="", show_default=False)
        while not is_an_answer(given, answer, question.choices):
            click.echo("That is no answer of this kind.")
            given = click.prompt(f"your answer ({form})", default="", show_default=False)
        if not given.strip():
            return 0
        if is_right(given, answer, question.choices):
            return attempt
        if attempt == 1:
            click.echo("Not yet. One more try:")
    return 3


MOST_BACKED_UP = 64 * 2**20


@main.command()
@lab_argument
def reset(lab: str) -> None:
    """Put the stub of LAB back. Your file is kept beside it as a backup."""
    from infralens import workspace
    from infralens.regular import read_regular, real, refuse_links, write_below, write_new

    chosen = lab_named(lab)
    here = workspace_or_usage(workspace.find_workspace(Path.cwd()), workspace)
    path = here.file(chosen)
    if real(path) == real(chosen.stub):
        raise UsageError(
            f"{path} is the stub itself. Work in a workspace of your own: `infralens init DIR`."
        )
    try:
        stub = read_regular(chosen.stub, MOST_BACKED_UP).decode("utf-8")
    except (OSError, UnicodeDecodeError):
        raise BrokenKitError(f"{chosen.short} has no stub to put back: {chosen.stub}.") from None
    try:
        refuse_links(here.root, path)
        if path.is_file():
            mine = read_regular(path, MOST_BACKED_UP, follow=False)
            if mine != stub.encode():
                backup = workspace.backup_of(path)
                write_new(here.root, backup, mine)
                say(f"Your file is kept as {backup}.")
        write_below(here.root, path, stub)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from None
    try:
        with workspace.updating(here) as holder:
            holder[0] = holder[0].begun_again(chosen)
    except OSError as error:
        click.echo(f"Your points of {chosen.short} stay: {error.strerror or error}.", err=True)
    say(f"{path} is the stub again.")


@main.command()
@click.argument("lab", metavar="LAB|TODO", shell_complete=complete_labs)
@click.option("--give-up", is_flag=True, help="Show it although points are missing.")
@click.option("--ref", help="A git revision that holds the solutions.")
def solution(lab: str, give_up: bool, ref: str | None) -> None:
    """Show the solution of a LAB or TODO that has full marks.

    Or of any, with --give-up.
    """
    from infralens import workspace
    from infralens.stubs import definitions

    todo = None
    with suppress(UnknownLabError):
        chosen, todo = find_todo(lab, all_labs())
    if todo is None:
        chosen = lab_named(lab)
    here = workspace.find_workspace(Path.cwd())
    progress = workspace.read_progress(here)[0] if here else workspace.Progress()
    score = progress.score(chosen) if todo is None else progress.points(chosen, todo.id)
    most = chosen.max_score if todo is None else todo.points
    if score < most and not give_up:
        raise UsageError(
            f"You have {score} of {most} points in {todo.id if todo else chosen.short}. "
            f"The solution is shown after full marks, or with --give-up."
        )
    text = _solution_text(chosen, ref)
    if text is None:
        raise UsageError(
            f"No solution of {chosen.short} is within reach: this copy of the labs holds none. "
            "Name a branch that does with --ref."
        )
    click.echo(text if todo is None else definitions(text, todo.names), nl=False)


def _solution_text(lab: Lab, ref: str | None) -> str | None:
    if ref is None:
        path = lab.solution
        return path.read_text(encoding="utf-8") if path is not None and path.is_file() else None
    from infralens.revisions import MOST_FILE_BYTES, RevisionError, file_at, top_of

    problem = ""
    for folder in (
        "solutions",
        "exercises",
    ):  # the second as `release repo --with-solutions` has it
        try:
            path = top_of(Path.cwd()) / folder / lab.track / lab.folder / lab.file
            return file_at(path, ref, most_bytes=MOST_FILE_BYTES).decode("utf-8", "replace")
        except RevisionError as error:
            problem = problem or str(error)
    raise UsageError(problem)
