"""For pictures: generate, try, show."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from PIL.Image import Image

    from infralens.labs import Lab

from infralens.cli.choosing import (
    file_option,
    lab_argument,
    lab_named,
    program,
    require_writable,
    workspace_or_usage,
)
from infralens.cli.group import (
    GRADER_FAILED,
    POINTS_MISSING,
    WRONG_USAGE,
    BrokenKitError,
    UsageError,
    main,
    say,
)


def _no_nan(ctx: click.Context, param: click.Parameter, value: float) -> float:
    """NaN is in every range of click's, since no comparison finds it outside."""
    if math.isnan(value):
        raise click.BadParameter("nan is no number.", ctx, param)
    return value


def picture_options(command: Callable[..., None]) -> Callable[..., None]:
    """PROMPT and how to draw it."""
    options = [
        click.argument("prompt"),
        click.option("--negative-prompt", default="", help="What the picture is to be away from."),
        click.option(
            "--guidance-scale",
            default=4.0,
            show_default=True,
            type=click.FloatRange(0, 100),
            callback=_no_nan,
        ),
        click.option("--steps", default=25, show_default=True, type=click.IntRange(1, 1000)),
        click.option("--seed", default=0, show_default=True, type=click.IntRange(0, 2**63 - 1)),
        click.option("--enlarge", default=8, show_default=True, type=click.IntRange(1, 64)),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def out_option(default: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(
        "--out",
        default=default,
        show_default=True,
        type=click.Path(dir_okay=False, path_type=Path),
        help="The PNG file to write.",
    )


@main.command()
@picture_options
@out_option("picture.png")
def generate(
    prompt: str,
    negative_prompt: str,
    guidance_scale: float,
    steps: int,
    seed: int,
    enlarge: int,
    out: Path,
) -> None:
    """Draw PROMPT with a tiny Stable Diffusion.

    For one: "a large yellow star on navy background". The model was trained for this kit on
    pictures of 32 x 32 pixels, and is small enough to lie in it. --enlarge 8 makes each pixel a
    square of eight.
    """
    from infralens import shapes

    _before_drawing(prompt, negative_prompt, out)
    (picture,) = shapes.generate(
        prompt,
        negative_prompt=negative_prompt,
        steps=steps,
        guidance_scale=guidance_scale,
        seed=seed,
    )
    _write_picture(out, picture, enlarge)


@main.command("try")
@picture_options
@out_option("mine.png")
@file_option("Draw with this file.")
@click.pass_context
def try_(
    ctx: click.Context,
    file: Path | None,
    prompt: str,
    negative_prompt: str,
    guidance_scale: float,
    steps: int,
    seed: int,
    enlarge: int,
    out: Path,
) -> None:
    """Draw PROMPT with your own lab 06, and compare.

    StableDiffusionPipeline draws it too. Both are given the kit's tiny Stable Diffusion; the
    library's picture has "-library" in its name.
    """
    from infralens import workspace

    path = file or workspace_or_usage(workspace.find_workspace(Path.cwd()), workspace).file(
        lab_named("lab-06")
    )
    if _is_not_started(path, "generate"):
        click.echo("Nothing is drawn: 6.5 (generate) is not started.", err=True)
        ctx.exit(POINTS_MISSING)
    _before_drawing(prompt, negative_prompt, out)
    from infralens.examiner.errors import UnreadableError
    from infralens.shapes.sampling import Request
    from infralens.show.harmless import one_line
    from infralens.trying import TryError, try_out

    request = Request(steps=steps, guidance_scale=guidance_scale)
    try:
        tried = try_out(path, prompt, negative_prompt, request, seed)
    except UnreadableError as error:
        raise UsageError(str(error)) from None
    except TryError as error:
        click.echo(one_line(str(error)), err=True)
        ctx.exit(POINTS_MISSING)
    beside = out.with_stem(f"{out.stem}-library")
    _write_picture(out, tried.mine, enlarge)
    _write_picture(beside, tried.library, enlarge)
    if not tried.wrong_pixels:
        click.echo("StableDiffusionPipeline draws the same with this prompt and seed.")
        return
    click.echo(
        f"{tried.wrong_pixels} of {tried.mine.width * tried.mine.height} pixels are not as "
        f"StableDiffusionPipeline draws them: compare {beside}. "
        f"`{program()} grade lab-06 --todo 6.5` looks for the reason."
    )
    ctx.exit(POINTS_MISSING)


@main.command()
@lab_argument
@file_option("Draw with this file.")
@out_option("LAB.png")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0, 2**63 - 1))
@click.pass_context
def show(ctx: click.Context, lab: str, file: Path | None, out: Path, seed: int) -> None:
    """Draw what your own code does, beside diffusers.

    Your functions run as when they are graded, on the shipped networks or on a denoiser that is
    exact for a few hundred pictures: a mistake is seen in what comes out. A terminal that can
    (kitty, Ghostty, iTerm2, WezTerm) shows the picture too.
    """
    import os
    import subprocess
    import sys

    from infralens import workspace
    from infralens.show.inline import show_inline
    from infralens.show.pictures import DRAWN

    chosen = lab_named(lab)
    if chosen.id not in DRAWN:
        drawn = ", ".join(name.removeprefix("diffusers/") for name in DRAWN)
        raise UsageError(f"{chosen.short} has no picture yet; these have one: {drawn}.")
    if out == Path("LAB.png"):
        out = Path(f"{chosen.name}.png")
    here = file or workspace_or_usage(workspace.find_workspace(Path.cwd()), workspace).file(chosen)
    _require_png(out)
    if _is_the_stub(here, chosen):
        click.echo(f"Nothing is drawn: no function in {here} is started.", err=True)
        ctx.exit(POINTS_MISSING)
    if sys.stderr.isatty():
        click.echo(f"Drawing with {here} …", err=True)
    program = (sys.executable, "-P", "-m", "infralens.show.pictures")
    with subprocess.Popen([*program, chosen.id, str(here), str(out), str(seed)]) as process:
        try:
            code = process.wait()
        finally:
            process.terminate()  # Ctrl-C: it clears away what it started, and writes nothing
    if code:
        ctx.exit(code if code in (POINTS_MISSING, WRONG_USAGE) else GRADER_FAILED)
    say(f"{out}: what {here} draws, beside diffusers")
    with contextlib.suppress(OSError):  # it is on the disk, whatever becomes of the terminal
        show_inline(out.read_bytes(), sys.stdout.buffer, os.environ)


def _require_png(out: Path) -> None:
    """UsageError for a file that is no PNG, or cannot be written."""
    if out.suffix.lower() != ".png":
        raise UsageError(f"{out} does not end in .png, the one format that is written.")
    require_writable(out)
    if out.is_symlink() or (out.exists() and not out.is_file()):
        raise UsageError(f"{out} is no regular file; name one that is, or a new one.")


def _is_the_stub(path: Path, lab: Lab) -> bool:
    """Whether the file is the untouched stub: told before torch is imported."""
    from infralens.examiner.candidate.submission import read_bytes
    from infralens.examiner.errors import UnreadableError

    try:
        return read_bytes(path) == lab.stub.read_bytes()
    except UnreadableError as error:
        raise UsageError(str(error)) from None


def _is_not_started(path: Path, name: str) -> bool:
    """Whether the file still has the stub's line there: told before torch is imported."""
    from infralens.examiner.candidate.submission import read_submission
    from infralens.examiner.errors import UnreadableError

    try:
        return read_submission(path).is_not_started(name)
    except UnreadableError as error:
        raise UsageError(str(error)) from None


def _before_drawing(prompt: str, negative_prompt: str, out: Path) -> None:
    """UsageError for a file that is no PNG or a missing library; a word about what is not read."""
    from infralens import shapes

    if out.suffix.lower() != ".png":
        raise UsageError(f"{out} does not end in .png, the one format that is written.")
    require_writable(out)
    try:
        f"{prompt}{negative_prompt}".encode()
    except UnicodeEncodeError:
        raise UsageError("The prompt is not UTF-8 text.") from None
    _require_whole_model()
    try:
        shapes.quiet()
    except ImportError as error:
        missing = error.name or error
        raise UsageError(f"{missing} is needed for this; see `infralens doctor`.") from None
    for text in (prompt, negative_prompt):
        _tell_what_is_not_read(text)


def _require_whole_model() -> None:
    """BrokenKitError when a file of the shipped model is missing or damaged."""
    from infralens import shapes
    from infralens.shapes.manifest import damages

    try:
        found = damages(shapes.MANIFEST.parent)
    except (OSError, ValueError) as error:
        found = [f"{shapes.MANIFEST.name} cannot be read: {error}"]
    if found:
        raise BrokenKitError(f"The kit's model is damaged ({found[0]}): install infralens again.")


WORDS_TOLD, LETTERS_TOLD = 5, 30


def _tell_what_is_not_read(text: str) -> None:
    """Words that the model was never shown, and where a text is too long for it."""
    from infralens import shapes
    from infralens.show.harmless import one_line

    unknown = shapes.unknown_words(text)
    if unknown:
        told = [repr(one_line(word, LETTERS_TOLD)) for word in unknown[:WORDS_TOLD]]
        told += [f"{len(unknown) - WORDS_TOLD} more words"] * (len(unknown) > WORDS_TOLD)
        click.echo(
            f"The model was never shown {' or '.join(told)}. It knows {shapes.KNOWN}.", err=True
        )
    read = shapes.part_that_is_read(text)
    if read is not None:
        click.echo(f"It is too long: the model reads only {one_line(read)!r}.", err=True)


def _write_picture(out: Path, picture: Image, enlarge: int) -> None:
    from infralens import shapes
    from infralens.regular import write_out

    try:
        write_out(out, shapes.as_png(picture, enlarge))
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {error.strerror or error}.") from None
    say(f"{out}: {picture.width * enlarge} x {picture.height * enlarge} pixels")
