"""The group of all commands, its errors and its exit codes."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from infralens import __version__

PASSED, POINTS_MISSING, WRONG_USAGE, GRADER_FAILED = 0, 1, 2, 3
FOR_OTHER_PROGRAMS = ("PYTHONWARNINGS", "TORCH_LOGS", "PYTEST_ADDOPTS", "PYTEST_PLUGINS")


class _SentenceError(click.ClickException):
    """What is told in one sentence. Commands in it begin as this one did: they can be pasted."""

    def __init__(self, sentence: str) -> None:
        from infralens.cli.choosing import program

        if click.get_current_context(silent=True) is not None:
            sentence = sentence.replace("`infralens ", f"`{program()} ")
        super().__init__(sentence)

    def show(self, file: Any = None) -> None:
        click.echo(f"infralens: {_harmless(self.message)}", err=True)


class UsageError(_SentenceError):
    """Wrong usage: one sentence, exit code 2."""

    exit_code = WRONG_USAGE


class BrokenKitError(_SentenceError):
    """Something of ours is broken: one sentence, exit code 3."""

    exit_code = GRADER_FAILED


def _harmless(text: str) -> str:
    """A sentence that may name a path or a word of somebody else's."""
    from infralens.show.harmless import harmless

    return harmless(text)


def say(sentence: str) -> None:
    """Print a sentence that names a path or a word of somebody else's."""
    click.echo(_harmless(sentence))


@contextlib.contextmanager
def _harmless_errors() -> Iterator[None]:
    """What click itself says of a wrong word, with the word made harmless."""
    try:
        yield
    except click.UsageError as error:
        said = error.format_message()
        if _harmless(said) == said:
            raise
        raise click.UsageError(_harmless(said), error.ctx) from None


NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


ORDER = (
    *("init", "list", "read", "grade", "debug", "watch", "hint", "generate", "try", "show"),
    *("quiz", "interview", "reset", "solution", "source", "site", "doctor", "check", "wrong"),
    *("new", "drift", "release", "audit", "batch", "class-report", "completion"),
)


class Commands(click.Group):
    """The group of all commands; knows their order and suggests the nearest name."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command; say so where the system lacks what it needs: room, a folder, /proc."""
        from infralens.examiner.errors import UnavailableError

        try:
            return super().main(*args, **kwargs)
        except UnavailableError as error:
            click.echo(f"infralens: {error}", err=True)
            sys.exit(WRONG_USAGE)
        except OSError as error:
            if error.filename == sys.executable:  # as by another user, whom it is closed to
                sentence = f"{sys.executable} cannot be started: {error.strerror}"
                click.echo(f"infralens: {sentence}; see `infralens doctor`.", err=True)
                sys.exit(GRADER_FAILED)
            problem = _unfit_place(error)
            if problem is None:
                raise
            click.echo(f"infralens: {problem}", err=True)
            sys.exit(WRONG_USAGE)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _harmless_errors():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _harmless_errors():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in ORDER if name in self.commands]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        import difflib

        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            near = difflib.get_close_matches(args[0], self.commands, n=1)
            advice = f" Did you mean {near[0]}?" if near else " See `infralens --help`."
            raise UsageError(f"There is no command {args[0]!r}.{advice}") from None


def _unfit_place(error: OSError) -> str | None:
    """One sentence about the place a command runs in, where that is why it failed."""
    try:
        Path.cwd()
    except OSError:
        return "The current folder is not there any more: go to another one."
    if error.errno in NO_ROOM:
        return f"The output cannot be written: {error.strerror}."
    return None


def _require_log() -> None:
    """UsageError where INFRALENS_LOG names what nothing can be appended to."""
    from infralens.examiner.service.log import HERE, VARIABLE, opened

    wished = os.environ.get(VARIABLE, "")
    if wished in ("", HERE):
        return
    try:
        opened(Path(wished)).close()
    except OSError as error:
        sentence = f"{VARIABLE} names {wished}, which cannot be written: {error.strerror}."
        raise UsageError(sentence) from None


def _settle_the_environment() -> None:
    """A warning that is an error, or pytest's options of a project, would stop a command of ours.

    An examiner takes nothing of the kind anyway; this is for what runs beside it, and its children,
    where transformers is to say nothing of what is not installed, unless somebody asked.
    """
    for name in FOR_OTHER_PROGRAMS:
        os.environ.pop(name, None)
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    if sys.warnoptions:  # PYTHONWARNINGS or -W
        sys.warnoptions.clear()
        warnings.simplefilter("ignore")


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="infralens")
@click.option(
    "--labs",
    "extra",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder with further labs (suites/, exercises/, solutions/).",
)
@click.pass_context
def main(ctx: click.Context, extra: tuple[Path, ...]) -> None:
    """Self-grading labs about diffusion inference, judged against the live diffusers library."""
    ctx.obj = [path.resolve() for path in extra]
    _require_log()
    _settle_the_environment()
    # An exception, so that examiners are closed; the code is what shells say of such an end.
    for name in ("SIGTERM", "SIGHUP", "SIGQUIT"):
        number = getattr(signal, name, None)  # Windows has only the first
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, lambda number, _: sys.exit(128 + number))
    if sys.stdin is None:  # closed, as by `<&-`: it ends at once for who reads it
        nothing = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115  # closed with the command
        sys.stdin = ctx.with_resource(nothing)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
