"""Reading a git revision of somebody else's: nothing in it starts a program or fills the memory."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from infralens import revisions
from infralens.revisions import RevisionError, file_at, top_of, write_folder_at

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
MIB = 2**20


def git(repository: Path, *words: str, given: bytes | None = None) -> str:
    own = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_CONFIG_GLOBAL": os.devnull}
    own |= {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    done = subprocess.run(
        ["git", "-C", str(repository), *words],
        input=given,
        capture_output=True,
        env=os.environ | own,
        check=True,
    )
    return done.stdout.decode().strip()


def commit(repository: Path, **files: str | bytes) -> str:
    for name, content in files.items():
        path = repository / f"{name}.py"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "work")
    return git(repository, "rev-parse", "HEAD")


@pytest.fixture
def handed_in(tmp_path: Path) -> Path:
    """A repository with two commits of mine.py."""
    repository = tmp_path / "handed-in"
    repository.mkdir()
    git(repository, "init", "-q", "-b", "main")
    commit(repository, mine="first\n")
    commit(repository, mine="second\n")
    return repository


def read(repository: Path, ref: str, most_bytes: int = MIB) -> str:
    return file_at(repository / "mine.py", ref, most_bytes=most_bytes).decode()


def test_branches_tags_numbers_and_ancestors_are_revisions(handed_in: Path) -> None:
    git(handed_in, "tag", "-a", "due", "-m", "due", "HEAD~1")
    number = git(handed_in, "rev-parse", "HEAD~1")
    refs = ["HEAD~1", "main^", "due", number, number[:12], "refs/tags/due"]
    assert {read(handed_in, ref) for ref in refs} == {"first\n"}
    assert read(handed_in, "main") == "second\n"


def test_packed_refs_and_packs_are_read(handed_in: Path) -> None:
    git(handed_in, "gc", "-q")
    git(handed_in, "pack-refs", "--all")
    assert read(handed_in, "main~1") == "first\n"


def test_a_worktree_is_read(handed_in: Path, tmp_path: Path) -> None:
    git(handed_in, "worktree", "add", "-q", str(tmp_path / "beside"), "-b", "other")
    commit(tmp_path / "beside", mine="third\n")
    assert read(tmp_path / "beside", "HEAD") == "third\n"


def test_a_submodule_is_read(handed_in: Path, tmp_path: Path) -> None:
    around = tmp_path / "around"
    around.mkdir()
    git(around, "init", "-q")
    words = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(handed_in)]
    git(around, *words, "inside")
    assert (around / "inside" / ".git").is_file()
    assert read(around / "inside", "main") == "second\n"


def leads_to(other: Path, mine: Path, way: str) -> None:
    """Have the repository at `mine` read what is in another, which does not know of it."""
    theirs = other / ".git"
    if way in ("refs", "objects", "refs/heads/main"):
        at = mine / ".git" / way
        shutil.rmtree(at) if at.is_dir() else at.unlink()
        at.symlink_to(theirs / way)
    elif way == "commondir":
        (mine / ".git" / way).write_text(f"{theirs}\n", encoding="utf-8")
    else:
        shutil.rmtree(mine / ".git")
        if way == "link":
            (mine / ".git").symlink_to(theirs)
        else:
            (mine / ".git").write_text(f"gitdir: {theirs}\n", encoding="utf-8")


@pytest.mark.skipif(os.name != "posix", reason="symbolic links")
@pytest.mark.parametrize(
    "way", ["link", "gitdir", "commondir", "refs", "objects", "refs/heads/main"]
)
def test_a_repository_that_does_not_know_of_it_is_not_read(
    handed_in: Path, tmp_path: Path, way: str
) -> None:
    """Such as the one of the solutions, which its reader may read and its author may not."""
    mine = tmp_path / "mine"
    mine.mkdir()
    git(mine, "init", "-q", "-b", "main")
    commit(mine, mine="mine\n")
    leads_to(handed_in, mine, way)
    with pytest.raises(RevisionError, match=r"symbolic link|does not know of it"):
        read(mine, "main")


@pytest.mark.skipif(os.name != "posix", reason="symbolic links")
@pytest.mark.parametrize("name", [".git", "commondir", "refs", "objects"])
def test_a_repository_that_none_can_be_is_one_sentence(handed_in: Path, name: str) -> None:
    own = handed_in / ".git"
    if name == "objects":
        shutil.rmtree(own / name)
        (own / name).symlink_to(own / name)
    elif name == "refs":
        shutil.rmtree(own / name)
        (own / name).write_bytes(b"")
    elif name == "commondir":
        (own / name).write_bytes(b"\0")
    else:
        shutil.rmtree(own)
        own.write_bytes(b"gitdir: \0")
    with pytest.raises(RevisionError):
        read(handed_in, "main")


def test_a_file_below_folders_is_read_from_there(handed_in: Path) -> None:
    (handed_in / "a" / "b").mkdir(parents=True)
    (handed_in / "a" / "b" / "mine.py").write_text("deep\n", encoding="utf-8")
    commit(handed_in)
    assert file_at(handed_in / "a" / "b" / "mine.py", "HEAD", most_bytes=MIB) == b"deep\n"


PROMISOR = """
[core]
    repositoryformatversion = 1
    fsmonitor = "touch {marker}; false"
    sshCommand = "touch {marker}; false"
    pager = "touch {marker}; false"
[extensions]
    partialClone = origin
[remote "origin"]
    url = {url}
    promisor = true
    uploadpack = "touch {marker}; false"
[protocol "file"]
    allow = always
[protocol "ext"]
    allow = always
"""


@pytest.mark.parametrize("url", [".", "ext::sh -c touch% {marker}", "ssh://host/x"])
def test_a_promisor_remote_starts_no_program(
    handed_in: Path, tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A blob that is missing is fetched from one, by a command that the configuration names."""
    monkeypatch.setattr(revisions, "_walls", lambda written: [])  # they would hide what it left
    marker = tmp_path / "ran"
    number = git(handed_in, "rev-parse", "HEAD:mine.py")
    (handed_in / ".git" / "objects" / number[:2] / number[2:]).unlink()
    text = PROMISOR.format(url=url.format(marker=marker), marker=marker)
    (handed_in / ".git" / "config").write_text(text, encoding="utf-8")
    with pytest.raises(RevisionError):
        read(handed_in, "HEAD")
    assert not marker.exists()
    subprocess.run(["git", "-C", str(handed_in), "show", "HEAD:mine.py"], capture_output=True)
    assert marker.exists() or url != "."  # that is what it would do


def test_a_broken_configuration_is_not_even_read(handed_in: Path) -> None:
    (handed_in / ".git" / "config").write_text("[include]\npath = /dev/zero\n[", encoding="utf-8")
    assert read(handed_in, "main") == "second\n"


def test_a_blob_that_is_too_large_is_not_unpacked(handed_in: Path) -> None:
    commit(handed_in, mine=bytes(65 * MIB))
    with pytest.raises(RevisionError, match=r"mine\.py at HEAD is larger than 1 MiB"):
        read(handed_in, "HEAD")
    assert len(read(handed_in, "HEAD", most_bytes=70 * MIB)) == 65 * MIB


def test_what_git_prints_is_bounded_whatever_size_it_told(handed_in: Path) -> None:
    with revisions._repository(handed_in) as repository:
        blob = ["cat-file", "blob", git(handed_in, "rev-parse", "HEAD:mine.py")]
        assert repository.run(blob, most_bytes=7) == b"second\n"
        with pytest.raises(RevisionError, match="git printed more than such a file may hold"):
            repository.run(blob, most_bytes=6)


def test_what_was_replaced_is_read_as_it_was(handed_in: Path) -> None:
    old, new = (
        git(handed_in, "rev-parse", "HEAD:mine.py"),
        git(handed_in, "rev-parse", "HEAD~1:mine.py"),
    )
    git(handed_in, "replace", old, new)
    assert read(handed_in, "HEAD") == "second\n"


@pytest.mark.parametrize(
    "ref",
    [
        *(
            "",
            "-h",
            "--help",
            "--output=x",
            "--all",
            "--since=yesterday",
            "ma[i]n",
            "[",
            "m*",
            "nothing",
            "HEAD:mine.py",
        ),
        *("main..HEAD", "HEAD\nHEAD", "a\0b", "\x1b[2J", "0" * 40, "\ud800"),
    ],
)
def test_what_is_no_revision_is_one_sentence(handed_in: Path, ref: str) -> None:
    with pytest.raises(RevisionError) as caught:
        read(handed_in, ref)
    assert str(caught.value).isprintable()
    assert "revision" in str(caught.value)
    assert {path.name for path in handed_in.iterdir()} == {".git", "mine.py"}


def test_a_file_or_a_repository_that_is_not_there_is_one_sentence(
    handed_in: Path, tmp_path: Path
) -> None:
    with pytest.raises(RevisionError, match=r"git has no other\.py at main\."):
        file_at(handed_in / "other.py", "main", most_bytes=MIB)
    with pytest.raises(RevisionError, match="is in no git repository"):
        top_of(tmp_path)


def test_without_git_it_is_one_sentence(handed_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RevisionError, match="git is not installed"):
        read(handed_in, "main")


@pytest.mark.skipif(os.name != "posix", reason="named pipes")
def test_a_ref_that_waits_for_ever_is_given_up(
    handed_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revisions, "GIT_SECONDS", 0.5)
    os.mkfifo(handed_in / ".git" / "refs" / "heads" / "pipe")
    with pytest.raises(RevisionError):
        read(handed_in, "pipe")
    (handed_in / ".git" / "HEAD").unlink()
    os.mkfifo(handed_in / ".git" / "HEAD")
    with pytest.raises(RevisionError, match="no git repository that can be read"):
        read(handed_in, "main")


def test_the_first_folder_that_is_there_is_written_without_links(
    handed_in: Path, tmp_path: Path
) -> None:
    both = ("solutions", "exercises")
    for name in reversed(both):
        (handed_in / name / "a").mkdir(parents=True)
        (handed_in / name / "a" / "x.py").write_text(name, encoding="utf-8")
        (handed_in / name / "link").symlink_to("/etc")
        (handed_in / name / "empty").write_text("", encoding="utf-8")
        commit(handed_in)
    into, earlier = tmp_path / "into", tmp_path / "earlier"
    assert write_folder_at(handed_in, "HEAD", both, into, most_bytes=MIB) == "solutions"
    written = {str(path.relative_to(into)) for path in into.rglob("*") if not path.is_dir()}
    assert written == {"solutions/a/x.py", "solutions/empty"}
    assert (into / "solutions" / "a" / "x.py").read_text("utf-8") == "solutions"
    assert write_folder_at(handed_in, "HEAD~1", both, earlier, most_bytes=MIB) == "exercises"
    with pytest.raises(RevisionError, match="git has no solutions or exercises at HEAD~2"):
        write_folder_at(handed_in, "HEAD~2", both, into, most_bytes=MIB)
    with pytest.raises(RevisionError, match="more than 0 MiB"):
        write_folder_at(handed_in, "HEAD", both, into, most_bytes=5)


def test_a_tree_that_leads_out_is_refused(handed_in: Path, tmp_path: Path) -> None:
    """git itself writes no such tree, but reads one."""
    blob = git(handed_in, "rev-parse", "HEAD:mine.py")
    inner = b"100644 ..\0" + bytes.fromhex(blob)
    tree = git(handed_in, "hash-object", "-t", "tree", "-w", "--literally", "--stdin", given=inner)
    outer = b"40000 solutions\0" + bytes.fromhex(tree)
    top = git(handed_in, "hash-object", "-t", "tree", "-w", "--literally", "--stdin", given=outer)
    number = git(handed_in, "commit-tree", top, "-m", "x")
    with pytest.raises(RevisionError, match="leads out"):
        write_folder_at(handed_in, number, ("solutions",), tmp_path / "into", most_bytes=MIB)


@pytest.mark.parametrize("names", [["solutions/" + "x" * 300], ["solutions/a", "solutions/a/b"]])
def test_a_name_that_no_file_can_have_is_one_sentence(
    handed_in: Path, tmp_path: Path, names: Sequence[str]
) -> None:
    """The second is no tree that git makes, but one that it reads."""
    blob = bytes.fromhex(git(handed_in, "rev-parse", "HEAD:mine.py"))

    def written(kind: str, given: bytes) -> bytes:
        words = ("hash-object", "-t", kind, "-w", "--literally", "--stdin")
        return bytes.fromhex(git(handed_in, *words, given=given))

    inner = b""
    for name in names:
        _, first, *more = name.encode().split(b"/")
        below = written("tree", b"100644 " + more[0] + b"\0" + blob) if more else blob
        inner += (b"40000 " if more else b"100644 ") + first + b"\0" + below
    top = written("tree", b"40000 solutions\0" + written("tree", inner))
    number = git(handed_in, "commit-tree", top.hex(), "-m", "x")
    with pytest.raises(RevisionError, match="cannot be written here"):
        write_folder_at(handed_in, number, ("solutions",), tmp_path / "into", most_bytes=MIB)
