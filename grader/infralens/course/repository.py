"""`infralens release repo`: a git repository for learning alone, graded on every push.

Branch main holds what learners get, and no answer in any object that can be reached from it. Branch
solutions, where it is wanted, begins anew: it has the same paths, with the answers filled in.
"""

from __future__ import annotations

import importlib.metadata
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from packaging.requirements import Requirement
from packaging.version import Version

from infralens import __version__
from infralens.course.audit import Auditor
from infralens.course.distinctive import solution_of, stub_text
from infralens.course.plumbing import Change, Repository, blob_id
from infralens.labs import Lab, Place, own_place
from infralens.stubs import BEGIN, END

DISTRIBUTION = "infralens-labs"
MANIFEST = ".infralens-release.json"
SCHEMA = 1
MAIN, SOLUTIONS, NEXT = "refs/heads/main", "refs/heads/solutions", "refs/infralens/next"
LEFT_OUT = {".infralens", "__pycache__", ".ipynb_checkpoints"}
TEMPLATES = {
    "README.md": "README.md.jinja",
    ".gitignore": "gitignore.jinja",
    ".github/workflows/grade.yml": "grade.yml.jinja",
    ".devcontainer/devcontainer.json": "devcontainer.json.jinja",
    ".devcontainer/Dockerfile": "Dockerfile.jinja",
}


class UnfitFolderError(Exception):
    """Nothing can be released into this folder; the text says why, and what to do."""


class LeakError(Exception):
    """What would be released gives an answer away; the text says where."""


@dataclass(frozen=True)
class Released:
    """What a release did: the commits it made (None: nothing was new), the files it let be.

    `kept` are files that learners changed or removed, of which the kit has something newer.
    """

    files: int
    main: str | None
    solutions: str | None
    kept: tuple[str, ...] = ()


def release_repository(
    folder: Path,
    labs: Sequence[Lab],
    places: Sequence[Place],
    *,
    auditor: Auditor,
    source: str | None = None,
    labs_source: str | None = None,
    with_solutions: bool = False,
) -> Released:
    """Make the repository at `folder`, or a new commit in the one that was made there before.

    `source` is what pip installs the kit from, `labs_source` what git clones labs from that are
    not the kit's. UnfitFolderError for a folder that is something
    else; LeakError where learners would get an answer; GitError when git fails.
    """
    before = _begun_before(folder)
    files = released_files(labs, places, source, labs_source)
    for finding in auditor.audit_files(files):
        raise LeakError(str(finding))
    answers = {**files, **solution_files(labs)} if with_solutions else None
    manifest = {name: blob_id(content) for name, content in files.items()}
    files[MANIFEST] = _manifest(manifest)
    repository = Repository.begun(folder) if before is None else Repository(folder)
    kept: tuple[str, ...] = ()
    if before is None:
        change = Change(f"The labs of InfraLens {__version__}", files)
    else:
        change, kept = _merged(repository, before, files, manifest)
    main = None
    if change.written or change.removed:
        main = repository.write(NEXT, change)
        trees = [before, main] if before else [main]
        repository.run(["read-tree", "-m", "-u", *trees])
        repository.run(["update-ref", MAIN, main, before or "0" * 40])
        repository.run(["update-ref", "-d", NEXT])
        repository.run(["symbolic-ref", "HEAD", MAIN])
    solutions = None if answers is None else _write_solutions(repository, answers)
    return Released(len(files), main, solutions, kept)


def released_files(
    labs: Sequence[Lab], places: Sequence[Place], source: str | None, labs_source: str | None
) -> dict[str, bytes]:
    """What learners get, by path. Stubs are made from their solutions, where these are here.

    A checkout's exercises may have been worked in: what stands in them is nobody's to hand out.
    """
    files = {name: content for place in reversed(places) for name, content in _exercises(place)}
    for lab in labs:
        if (text := solution_of(lab)) is not None:
            files[path_of(lab)] = stub_text(lab, text).encode()
    environment = Environment(
        loader=PackageLoader("infralens.course", "templates/repository"),
        undefined=StrictUndefined,
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
        keep_trailing_newline=True,
        trim_blocks=True,
    )
    known = {
        "labs": labs,
        "source": source,
        "labs_source": labs_source,
        "own": any(place != own_place() for place in places),
        "quoted": shlex.quote(source) if source else '"$GRADER_SOURCE"',
        "quoted_labs": shlex.quote(labs_source) if labs_source else '"$LABS_SOURCE"',
    }
    for name, template in TEMPLATES.items():
        files[name] = environment.get_template(template).render(known).encode()
    files["constraints.txt"] = "".join(f"{pin}\n" for pin in pins()).encode()
    return files


def solution_files(labs: Sequence[Lab]) -> dict[str, bytes]:
    """The same paths with the answers filled in. UnfitFolderError where a solution is not here."""
    found = {}
    for lab in labs:
        text = solution_of(lab)
        if text is None:
            raise UnfitFolderError(f"{lab.short} has no solution here; release from a checkout.")
        lines = [line for line in text.splitlines() if line.strip() not in (BEGIN, END)]
        found[path_of(lab)] = ("\n".join(lines) + "\n").encode()
    return found


def path_of(lab: Lab) -> str:
    """Where a lab's file stands in the repository."""
    return f"exercises/{lab.track}/{lab.folder}/{lab.file}"


def _exercises(place: Place) -> Iterator[tuple[str, bytes]]:
    for path in sorted(place.exercises.rglob("*")):
        inside = path.relative_to(place.exercises)
        if path.is_file() and not path.is_symlink() and not LEFT_OUT & set(inside.parts):
            yield f"exercises/{inside.as_posix()}", path.read_bytes()


def pins() -> Iterator[str]:
    """What the kit needs, in the versions that are installed here."""
    for line in sorted(importlib.metadata.requires(DISTRIBUTION) or []):
        needed = Requirement(line)
        if needed.marker is None:  # the others are extras
            version = Version(importlib.metadata.version(needed.name))
            yield f"{needed.name}=={version.public}"


def _manifest(numbers: Mapping[str, str]) -> bytes:
    document = {"schema": SCHEMA, "kit": __version__, "files": dict(sorted(numbers.items()))}
    return (json.dumps(document, indent=1) + "\n").encode()


def _begun_before(folder: Path) -> str | None:
    """The commit that main stands for; None where there is nothing. Else UnfitFolderError."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UnfitFolderError(f"{folder} is no folder; name one that is not there yet.")
    if not folder.exists() or not any(folder.iterdir()):
        return None
    if not (folder / ".git").exists():
        raise UnfitFolderError(f"{folder} holds something else; name a folder that is not there.")
    repository = Repository(folder)
    before = repository.commit_at(MAIN)
    if [path.name for path in folder.iterdir()] == [".git"] and not repository.run(
        ["for-each-ref"]
    ):
        return None  # as it is cloned from where it is to be pushed
    if before is None or MANIFEST not in repository.files_at(before):
        raise UnfitFolderError(f"{folder} is a repository of something else; name another folder.")
    if repository.branch() != MAIN:
        raise UnfitFolderError(f"{folder} is not on branch main; `git switch main` there first.")
    if not repository.is_clean():
        raise UnfitFolderError(f"{folder} has changes that are not committed; commit them first.")
    return before


def _merged(
    repository: Repository, before: str, files: Mapping[str, bytes], manifest: Mapping[str, str]
) -> tuple[Change, tuple[str, ...]]:
    """What a new release changes: only what stands there as the last one wrote it."""
    now = repository.files_at(before)
    last = _released_before(repository.file_at(before, MANIFEST) or b"")
    written, kept = {}, []
    for name, content in files.items():
        number = manifest.get(name, blob_id(content))
        if now.get(name) == number:
            continue
        if name == MANIFEST or now.get(name) == last.get(name):  # both None: it is new
            written[name] = content
        elif last.get(name) != number:
            kept.append(name)
    gone = [name for name in last if name not in files and now.get(name) == last[name]]
    return Change(f"The labs of InfraLens {__version__}", written, gone, before), tuple(kept)


def _released_before(manifest: bytes) -> dict[str, str]:
    try:
        return {str(name): str(number) for name, number in json.loads(manifest)["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UnfitFolderError(
            f"{MANIFEST} on branch main is not what a release wrote; put it back."
        ) from None


def _write_solutions(repository: Repository, answers: Mapping[str, bytes]) -> str | None:
    before = repository.commit_at(SOLUTIONS)
    numbers = {name: blob_id(content) for name, content in answers.items()}
    if before is not None and repository.files_at(before) == numbers:
        return None
    message = f"The solutions of InfraLens {__version__}"
    return repository.write(SOLUTIONS, Change(message, answers, parent=before, whole=True))
