"""For reading in a browser: site."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import click

from infralens.cli.choosing import all_labs, terminal, workspace_or_usage
from infralens.cli.group import BrokenKitError, UsageError, main, say
from infralens.labs import Lab, Todo


@main.command()
@click.argument("out", metavar="OUT", type=click.Path(path_type=Path))
@click.option("--mine", is_flag=True, help="With the library's own lines at todos that you passed.")
@click.option("--serve", is_flag=True, help="Then show it at an address of this machine.")
def site(out: Path, mine: bool, serve: bool) -> None:
    """Make a web site of handbook and labs in the folder OUT.

    It needs no network and no server. Hints and checkpoints unfold; no answer to a todo is in it.
    An earlier site at OUT is replaced once the new one is whole.
    """
    from infralens.show.site.building import build_site, missing, require_place
    from infralens.show.site.errors import SiteError

    lacking = missing()
    if lacking is not None:
        raise BrokenKitError(lacking)
    try:
        require_place(out.resolve())
    except SiteError as error:
        raise UsageError(str(error)) from None
    sources = sources_of_passed() if mine else _no_sources
    with terminal(stderr=True).status("starting …") as status:
        try:
            count = build_site(all_labs(), out, _answers, status.update, sources)
        except SiteError as error:
            raise BrokenKitError(str(error)) from None
        except OSError as error:
            raise UsageError(f"{out} cannot be written: {error.strerror or error}.") from None
    say(f"{count} pages written to {out}.")
    if serve:
        _serve(out)


def _answers(lab: Lab) -> Sequence[str]:
    """The checkpoints' answers, worked out with diffusers now, each with its explanation."""
    from infralens.quiz import explained, questions_of
    from infralens.show.site.errors import SiteError

    told = []
    for number, question in enumerate(questions_of(lab), start=1):
        try:
            told.append(explained(question, question.answer()))
        except Exception as error:  # as `quiz` says it: the installed library has no such answer
            raise SiteError(
                f"Checkpoint {number} of {lab.short} has no answer with this diffusers: {error}"
            ) from error
    return told


def _no_sources(lab: Lab, todo: Todo) -> str:
    return ""


def sources_of_passed() -> Callable[[Lab, Todo], str]:
    """What `source` shows of a todo, for those that are passed in this workspace."""
    from infralens import workspace
    from infralens.library_source import NoSourceError, excerpt
    from infralens.show.site.staging import as_markdown

    here = workspace_or_usage(workspace.find_workspace(Path.cwd()), workspace)
    progress, _ = workspace.read_progress(here)

    def told(lab: Lab, todo: Todo) -> str:
        if todo.source is None or progress.points(lab, todo.id) < todo.points:
            return ""
        try:
            taken = excerpt(todo.source)
        except NoSourceError:  # another version of the library: its page is as before
            return ""
        where = f"`{todo.source.name}`, lines {taken.first} to {taken.last}"
        return f"{where}:\n\n````python\n{taken.text}\n````\n\n{as_markdown(todo.source.asks)}"

    return told


def _serve(out: Path) -> None:
    import contextlib
    import functools
    from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(out))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        say(f"http://127.0.0.1:{server.server_port}/ (Ctrl+C ends it)")
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
