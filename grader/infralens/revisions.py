"""Files of a git revision, read so that nothing in the repository can start a program.

A repository that was handed in is somebody else's: its configuration names commands (remotes,
hooks, filters, pagers). So git sees a folder of ours instead, with its own configuration, that
borrows only the objects and the refs. Where there is a sandbox it runs in one, read-only.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from infralens.examiner.isolation.bubblewrap import unavailable
from infralens.regular import read_regular

MOST_FILE_BYTES = 2**20  # as a submission that is read from the disk
MOST_FOLDER_BYTES = 256 * 2**20
GIT_SECONDS = 60.0
GIT_BYTES = 4 * 2**30  # of address space: git maps the packs it reads
MOST_LISTED = 16 * 2**20  # bytes of names
SMALL_FILE = 4096  # .git, HEAD and commondir are a line
SHARED = ("refs", "packed-refs", "objects")  # what is read of a repository
SETTINGS = (
    *("core.hooksPath=/dev/null", "core.fsmonitor=false", "protocol.allow=never", "gc.auto=0"),
    *("core.packedGitWindowSize=16m", "core.packedGitLimit=256m", "core.bigFileThreshold=1m"),
)
ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}


class RevisionError(Exception):
    """There is no such file or revision, or nothing to read it with; the text says which."""


def file_at(path: Path, ref: str, *, most_bytes: int) -> bytes:
    """The bytes of the file `path` as they stand at `ref` in the repository around it."""
    with _repository(path.parent) as repository:
        commit = repository.commit(ref)
        name = path.relative_to(repository.top).as_posix()
        if "\n" in name:
            raise RevisionError("A name with a line break in it is not read from git.")
        said = repository.run(["cat-file", "--batch-check"], given=f"{commit}:{name}\n".encode())
        number, kind, size = [*said.decode("utf-8", "replace").split(), "", "", ""][:3]
        if kind != "blob":
            raise RevisionError(f"git has no {path.name} at {ref}.")
        if int(size) > most_bytes:
            raise RevisionError(f"{path.name} at {ref} is larger than {most_bytes >> 20} MiB.")
        return repository.run(["cat-file", "blob", number], most_bytes=most_bytes)


def write_folder_at(
    start: Path, ref: str, folders: Sequence[str], into: Path, *, most_bytes: int
) -> str:
    """Write the first of these folders that a revision has below `into`, and say which it is.

    Plain files only, no links.
    """
    with _repository(start) as repository:
        commit = repository.commit(ref)
        folder, entries = _first_folder(repository, commit, folders)
        if folder is None:
            raise RevisionError(f"git has no {' or '.join(folders)} at {ref}.")
        if sum(entry.size for entry in entries) > most_bytes:
            raise RevisionError(f"{ref} holds more than {most_bytes >> 20} MiB of files.")
        blobs = [(entry.number, "blob", entry.size) for entry in entries]
        for entry, found in zip(entries, _contents(repository, blobs), strict=True):
            target = into / entry.name
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(found.content or b"")
            except OSError as error:  # a name that is too long here, or a file's and a folder's too
                told = repr(str(entry.name))[:200]
                sentence = f"{told} cannot be written here: {error.strerror}."
                raise RevisionError(sentence) from None
        return folder


def _first_folder(
    repository: _Repository, commit: str, folders: Sequence[str]
) -> tuple[str | None, list[_Entry]]:
    for folder in folders:
        listed = repository.run(["ls-tree", "-r", "-l", "-z", commit, f"{folder}/"])
        entries = [entry for line in listed.split(b"\0") if line for entry in _plain_file(line)]
        if entries:
            return folder, entries
    return None, []


@dataclass(frozen=True)
class GitObject:
    """An object of git: its kind, its number, its content (None: larger than was wanted)."""

    kind: str
    number: str
    content: bytes | None


def objects_in(pack: bytes, *, most_bytes: int) -> Iterator[GitObject]:
    """Every object of a git pack, each of at most so many bytes."""
    git = shutil.which("git")
    if git is None:
        raise RevisionError("git is not installed; it is what reads a pack.")
    with tempfile.TemporaryDirectory(prefix="infralens-git-") as name:
        view = Path(name)
        _begin_view(view, "ref: refs/heads/main")
        packs = view / "objects" / "pack"
        packs.mkdir()
        (view / "refs").mkdir()
        (packs / "pack-here.pack").write_bytes(pack)
        repository = _Repository(git, view, view, view / "objects")
        repository.run(["index-pack", "--threads=1", str(packs / "pack-here.pack")], writes=True)
        yield from _read_objects(repository, ["--batch-all-objects"], b"", most_bytes)


def objects_reached(start: Path, ref: str, *, most_bytes: int) -> Iterator[tuple[GitObject, str]]:
    """Every object that can be reached from a revision, with a name that it has there."""
    with _repository(start) as repository:
        said = repository.run(["rev-list", "--objects", repository.commit(ref)])
        names = {}
        for line in said.decode("utf-8", "replace").splitlines():
            number, _, path = line.partition(" ")
            names[number] = path
        given = "".join(f"{number}\n" for number in names).encode()
        for found in _read_objects(repository, [], given, most_bytes):
            yield found, names[found.number]


MOST_AT_ONCE = 32 * 2**20


def _read_objects(
    repository: _Repository, which: Sequence[str], given: bytes, most_bytes: int
) -> Iterator[GitObject]:
    """Objects in the order of the list, some at a time, so that no answer is large."""
    listed = repository.run(["cat-file", "--batch-check", *which], given=given).decode("ascii")
    waiting: list[tuple[str, str, int]] = []
    together = 0
    for line in listed.splitlines():
        number, kind, size = [*line.split(), "", ""][:3]
        if not size.isdecimal():
            raise RevisionError(f"git cannot read the object {number}.")
        if int(size) > most_bytes:
            yield GitObject(kind, number, None)
            continue
        if waiting and together + int(size) > MOST_AT_ONCE:
            yield from _contents(repository, waiting)
            waiting, together = [], 0
        waiting.append((number, kind, int(size)))
        together += int(size)
    yield from _contents(repository, waiting)


def _contents(
    repository: _Repository, objects: Sequence[tuple[str, str, int]]
) -> Iterator[GitObject]:
    numbers = "".join(f"{number}\n" for number, _, _ in objects).encode()
    room = sum(size + 100 for _, _, size in objects)
    said = memoryview(repository.run(["cat-file", "--batch"], given=numbers, most_bytes=room))
    for number, kind, size in objects:
        head = f"{number} {kind} {size}\n".encode()
        if said[: len(head)] != head or len(said) <= len(head) + size:
            raise RevisionError(f"git cannot read the object {number}.")
        yield GitObject(kind, number, bytes(said[len(head) : len(head) + size]))
        said = said[len(head) + size + 1 :]


@dataclass(frozen=True)
class _Entry:
    """A plain file of a tree."""

    number: str
    size: int
    name: PurePosixPath


def _plain_file(line: bytes) -> Iterator[_Entry]:
    """The entry in a line of `git ls-tree -l`; nothing for a link or a submodule."""
    about, _, name = line.partition(b"\t")
    mode, _, number, size = about.decode("ascii").split()
    if mode.startswith("100"):
        yield _Entry(number, int(size), _inside(name))


def top_of(start: Path) -> Path:
    """The folder that holds the .git around `start`."""
    for folder in (start, *start.parents):
        if os.path.lexists(folder / ".git"):
            return folder
    raise RevisionError(f"{start} is in no git repository.")


def _inside(name: bytes) -> PurePosixPath:
    path = PurePosixPath(os.fsdecode(name))
    if path.is_absolute() or {"..", ".git"} & set(path.parts) or "\\" in str(path):
        raise RevisionError("The revision holds a file name that leads out of it.")
    return path


@dataclass(frozen=True)
class _Repository:
    """The repository at `top`, seen by git as `view`, a git folder of ours."""

    git: str
    top: Path
    view: Path
    objects: Path

    def commit(self, ref: str) -> str:
        """The number of the commit that is meant."""
        if not ref or ref.startswith("-") or not ref.isprintable():
            raise RevisionError(f"{ref!r} is no git revision.")
        words = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}"]
        try:
            lines = self.run(words).decode("ascii", "replace").split()
        except RevisionError:
            raise RevisionError(f"git knows no revision {ref!r} here.") from None
        return lines[-1]

    def run(
        self,
        words: Sequence[str],
        *,
        given: bytes = b"",
        most_bytes: int = MOST_LISTED,
        writes: bool = False,
    ) -> bytes:
        """What git prints. RevisionError when it fails, takes too long or prints too much.

        `writes`: it may write into the folder of ours, and nowhere else.
        """
        settings = [word for setting in SETTINGS for word in ("-c", setting)]
        command = [
            *_walls(self.view if writes else None),
            self.git,
            "--no-pager",
            "--literal-pathspecs",
            *settings,
            *words,
        ]
        kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
        own = {"HOME": str(self.view), "GIT_DIR": str(self.view)}
        own["GIT_OBJECT_DIRECTORY"] = str(self.objects)
        with tempfile.TemporaryFile() as asked, contextlib.ExitStack() as stack:
            asked.write(given)
            asked.seek(0)
            process = subprocess.Popen(
                command,
                stdin=asked,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=self.view,
                env=kept | ENVIRONMENT | own,
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            _limit(process.pid)
            timer = stack.enter_context(_ended_after(process, GIT_SECONDS))
            assert process.stdout is not None
            said = process.stdout.read(most_bytes + 1)
            if len(said) > most_bytes:
                raise RevisionError("git printed more than such a file may hold.")
            if process.wait() or timer:
                raise RevisionError("git could not read it.")
            return said


@contextmanager
def _ended_after(process: subprocess.Popen[bytes], seconds: float) -> Iterator[list[bool]]:
    """Kill the process when time is up: a ref may be a pipe in which nobody writes."""
    late: list[bool] = []

    def end() -> None:
        late.append(True)
        process.kill()

    timer = threading.Timer(seconds, end)
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()


def _limit(pid: int) -> None:
    if sys.platform == "linux":
        import resource

        with contextlib.suppress(OSError, ValueError):
            resource.prlimit(pid, resource.RLIMIT_AS, (GIT_BYTES, GIT_BYTES))


def _walls(written: Path | None) -> list[str]:
    """A sandbox in which all can be read and one folder written, without a network."""
    if unavailable() is not None:
        return []
    return [
        *("bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
        *(() if written is None else ("--bind", str(written), str(written))),
        *("--unshare-net", "--unshare-pid", "--unshare-ipc", "--die-with-parent", "--"),
    ]


@contextmanager
def _repository(start: Path) -> Iterator[_Repository]:
    top, git = top_of(start), shutil.which("git")
    if git is None:
        raise RevisionError("git is not installed; it is what reads a revision.")
    try:
        common, head = _git_folder(top.resolve())
        for shared in SHARED:
            _refuse_links_in(common / shared)
    except (OSError, ValueError, RuntimeError):  # a name that none can be, links in a ring
        raise RevisionError(f"{top} holds no git repository that can be read.") from None
    with tempfile.TemporaryDirectory(prefix="infralens-git-") as name:
        view = Path(name)
        _begin_view(view, head)
        _borrow(common / "packed-refs", view / "packed-refs")
        if (common / "refs").is_dir():
            _borrow(common / "refs", view / "refs")
        else:
            (view / "refs").mkdir()
        yield _Repository(git, top, view, (common / "objects").resolve())


def _git_folder(top: Path) -> tuple[Path, str]:
    """The git folder of `top` that holds objects and refs, and what its HEAD says.

    What was handed in says itself where these lie. To another repository it is followed only where
    that knows of it: as one of its worktrees, or as a submodule of what lies around it.
    """
    own = top / ".git"
    if own.is_symlink():
        raise RevisionError(f"{own} is a symbolic link, which may lead to another repository.")
    if own.is_file():  # the line says where
        own = (top / _line(own).removeprefix("gitdir:").strip()).resolve()
        if not (own.is_relative_to(top) or _is_worktree(own, top) or _is_submodule(own, top)):
            raise RevisionError(f"{top / '.git'} leads to a repository that does not know of it.")
    common = own
    if (own / "commondir").is_file():
        common = (own / _line(own / "commondir")).resolve()
        if common != own and not own.is_relative_to(common / "worktrees"):
            raise RevisionError(f"{own} leads to a repository that does not know of it.")
    return common, _line(own / "HEAD")


def _is_worktree(own: Path, top: Path) -> bool:
    back = own / "gitdir"
    return back.is_file() and (own / _line(back)).resolve() == (top / ".git").resolve()


def _is_submodule(own: Path, top: Path) -> bool:
    return any(own.is_relative_to(folder / ".git" / "modules") for folder in top.parents)


def _refuse_links_in(path: Path) -> None:
    """RevisionError where it is a link, or one of its refs is: git would follow it."""
    inside = path.rglob("*") if path.name == "refs" else ()
    link = next((one for one in (path, *inside) if one.is_symlink()), None)
    if link is not None:
        raise RevisionError(f"{link} is a symbolic link, which may lead to another repository.")


def _begin_view(view: Path, head: str) -> None:
    """A git folder of ours, without objects and refs."""
    (view / "HEAD").write_text(f"{head}\n", encoding="utf-8")
    (view / "objects").mkdir()
    (view / "config").write_text("[core]\nrepositoryformatversion = 0\nbare = true\n", "utf-8")


def _line(path: Path) -> str:
    return read_regular(path, SMALL_FILE).decode("utf-8", "replace").strip()


def _borrow(source: Path, target: Path) -> None:
    if not source.exists():
        return
    try:
        target.symlink_to(source.resolve(), target_is_directory=source.is_dir())
    except OSError:  # Windows, for an ordinary user
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, target)
