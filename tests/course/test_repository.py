"""A repository for learning alone: no answer on main, a learner's work stays, its files work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from infralens.authoring.beginning import begin_lab
from infralens.course.audit import Auditor
from infralens.course.distinctive import owner_of
from infralens.course.plumbing import Change, Repository
from infralens.course.repository import (
    MAIN,
    MANIFEST,
    SOLUTIONS,
    LeakError,
    Released,
    UnfitFolderError,
    path_of,
    release_repository,
)
from infralens.labs import find_labs, own_place, place_at
from infralens.stubs import answer_lines, regions

LABS = find_labs()
LAB = LABS[0]
AUDITOR = Auditor(LABS)
pytestmark = pytest.mark.xdist_group("repository")  # one release for all
SOURCE = 'git+ssh://kit.example.invalid/it\'s a "kit".git'


def released(folder: Path, *, with_solutions: bool = False) -> Released:
    return release_repository(
        folder,
        LABS,
        [own_place()],
        auditor=AUDITOR,
        source=SOURCE,
        with_solutions=with_solutions,
    )


def git(folder: Path, *words: str) -> str:
    names = {
        f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    done = subprocess.run(
        ["git", "-C", str(folder), *words],
        capture_output=True,
        text=True,
        env=os.environ | names | {"GIT_CONFIG_GLOBAL": os.devnull},
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release with solutions; tests read it and write nothing."""
    folder = tmp_path_factory.mktemp("released") / "labs"
    released(folder, with_solutions=True)
    return folder


def test_main_holds_every_stub_page_and_handbook_page_and_is_checked_out(course: Path) -> None:
    assert git(course, "status", "--porcelain") == ""
    assert git(course, "symbolic-ref", "HEAD") == MAIN
    for lab in LABS:
        text = (course / path_of(lab)).read_text(encoding="utf-8")
        assert "raise NotImplementedError" in text
        assert (course / path_of(lab)).with_name("README.md").is_file()
    assert (course / "exercises/handbook/scheduler.md").is_file()


def test_main_reaches_no_answer_and_solutions_reaches_those_of_every_todo(course: Path) -> None:
    assert list(AUDITOR.audit_reached(course, "main")) == []
    owners = {finding.owner for finding in AUDITOR.audit_reached(course, "solutions")}
    assert {owner_of(lab, name) for lab in LABS for name in lab.todo_of_name} <= owners


def test_branch_solutions_shares_no_history_and_has_the_answers_at_the_same_paths(
    course: Path,
) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        git(course, "merge-base", "main", "solutions")
    assert LAB.solution is not None
    text = git(course, "show", f"{SOLUTIONS}:{path_of(LAB)}")
    lines = {line.strip() for line in text.splitlines()}
    assert set(answer_lines(LAB.solution.read_text(encoding="utf-8"))) <= lines
    assert not regions(text)


@pytest.fixture
def learned(tmp_path: Path) -> Path:
    """A release of long ago: lab 01 had another page, lab 02 no stub, and a file is gone since.

    Its learner has answered lab 01 and written notes.
    """
    folder = tmp_path / "labs"
    released(folder)
    page, second = path_of(LAB).rpartition("/")[0] + "/README.md", path_of(LABS[1])
    (folder / page).write_text("as it was", encoding="utf-8")
    (folder / second).unlink()
    (folder / "exercises/gone.md").write_text("of then", encoding="utf-8")
    document = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    del document["files"][second]
    for name in (page, "exercises/gone.md"):
        document["files"][name] = git(folder, "hash-object", name)
    (folder / MANIFEST).write_text(json.dumps(document), encoding="utf-8")
    (folder / "notes.md").write_text("mine", encoding="utf-8")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "what was released then")
    (folder / path_of(LAB)).write_text("def mine(): ...\n", encoding="utf-8")
    git(folder, "commit", "-qam", "my answer")
    return folder


def test_a_release_into_the_same_repository_is_one_commit_and_keeps_what_learners_did(
    learned: Path,
) -> None:
    before = git(learned, "rev-parse", "main")
    done = released(learned)
    assert git(learned, "rev-parse", "main^") == before
    assert git(learned, "status", "--porcelain") == ""
    assert (learned / path_of(LAB)).read_text(encoding="utf-8") == "def mine(): ...\n"
    assert (learned / "notes.md").read_text(encoding="utf-8") == "mine"
    assert (learned / path_of(LAB)).with_name("README.md").read_bytes() == LAB.page.read_bytes()
    assert (learned / path_of(LABS[1])).is_file()
    assert not (learned / "exercises/gone.md").exists()
    assert done.kept == ()  # the stub of lab 01 is what it was: nothing newer is missed
    assert released(learned).main is None


def test_what_a_learner_changed_is_kept_and_told_where_the_kit_has_something_newer(
    learned: Path,
) -> None:
    page = path_of(LAB).rpartition("/")[0] + "/README.md"
    (learned / page).write_text("with my notes", encoding="utf-8")
    git(learned, "commit", "-qam", "notes")
    assert released(learned).kept == (page,)
    assert (learned / page).read_text(encoding="utf-8") == "with my notes"


def test_what_is_something_else_or_unfinished_is_refused_and_left_as_it_is(
    learned: Path, tmp_path: Path
) -> None:
    other, empty = tmp_path / "other", tmp_path / "project"
    other.mkdir()
    (other / "thesis.tex").write_text("mine", encoding="utf-8")
    Repository.begun(empty).write(MAIN, Change("theirs", {"thesis.tex": b"mine"}))
    file = tmp_path / "file"
    file.write_text("", encoding="utf-8")
    for folder, said in ((other, "something else"), (empty, "something else"), (file, "no folder")):
        with pytest.raises(UnfitFolderError, match=said):
            released(folder)
    assert [path.name for path in other.iterdir()] == ["thesis.tex"]
    (learned / "notes.md").write_text("more", encoding="utf-8")
    with pytest.raises(UnfitFolderError, match="not committed"):
        released(learned)
    git(learned, "switch", "-qc", "elsewhere")
    with pytest.raises(UnfitFolderError, match="not on branch main"):
        released(learned)


def test_a_folder_may_be_named_from_where_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    repository = Repository.begun(Path("labs"))
    assert repository.commit_at("main") is None
    assert repository.branch() == "refs/heads/main"


def test_a_repository_without_a_commit_is_released_into(tmp_path: Path) -> None:
    """As it is cloned from where it is to be pushed, whatever its first branch is called."""
    git(tmp_path, "init", "-q", "-b", "trunk", "labs")
    assert released(tmp_path / "labs").main
    assert git(tmp_path / "labs", "symbolic-ref", "HEAD") == MAIN
    assert git(tmp_path / "labs", "status", "--porcelain") == ""


def test_nothing_of_the_repositorys_own_runs(learned: Path, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    hook = learned / ".git/hooks/reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {marker}\n", encoding="utf-8")
    hook.chmod(0o755)
    assert released(learned).main
    assert not marker.exists()


def test_the_written_files_parse_and_name_where_the_kit_comes_from(course: Path) -> None:
    workflow = yaml.safe_load((course / ".github/workflows/grade.yml").read_text(encoding="utf-8"))
    grading, commenting = workflow["jobs"]["grade"], workflow["jobs"]["comment"]
    assert grading["env"]["GRADER_SOURCE"] == SOURCE
    assert workflow[True] == {"push": {"branches-ignore": ["solutions"]}}  # YAML's "on"
    assert workflow["permissions"] == {"contents": "read"}
    assert "permissions" not in grading  # what was handed in runs without the right to write
    assert commenting["permissions"] == {"contents": "write"}
    container = json.loads((course / ".devcontainer/devcontainer.json").read_text("utf-8"))
    assert container["containerEnv"]["GRADER_SOURCE"] == SOURCE
    assert (course / ".devcontainer" / container["build"]["dockerfile"]).is_file()
    for line in (course / "constraints.txt").read_text(encoding="utf-8").splitlines():
        Requirement(line)


def steps(course: Path) -> dict[str, str]:
    """The commands of the workflow by the names of their steps."""
    workflow = yaml.safe_load((course / ".github/workflows/grade.yml").read_text(encoding="utf-8"))
    listed = [step for job in workflow["jobs"].values() for step in job["steps"]]
    return {step["name"]: step["run"] for step in listed if "run" in step}


def test_the_workflow_grades_what_was_begun_and_comments_the_report(
    course: Path, tmp_path: Path
) -> None:
    """Its commands as they stand, with the kit that is installed here and a `gh` that writes."""
    folder, programs, summary = tmp_path / "labs", tmp_path / "bin", tmp_path / "summary.md"
    git(tmp_path, "clone", "-q", str(course), str(folder))
    programs.mkdir()
    (programs / "gh").write_text('#!/bin/sh\necho "$@"\ncat report.md\n', encoding="utf-8")
    (programs / "gh").chmod(0o755)
    path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    own = {"PATH": path, "GITHUB_STEP_SUMMARY": str(summary), "LC_ALL": "C.UTF-8"}
    own |= {"GITHUB_REPOSITORY": "me/labs", "GITHUB_SHA": "f00", "GRADER_SOURCE": ""}

    def ran(step: str) -> tuple[int, str]:
        command = ["bash", "-e", "-c", steps(course)[step]]
        done = subprocess.run(
            command, cwd=folder, env=own, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    code, said = ran("Install the kit")
    assert code == 1
    assert "Set the variable GRADER_SOURCE" in said
    code, said = ran("Grade")
    assert code == 0, said
    assert "nothing to grade" in said

    answers = git(course, "show", f"{SOLUTIONS}:{path_of(LAB)}")
    (folder / path_of(LAB)).write_text(answers + "\n", encoding="utf-8")
    code, said = ran("Grade")
    assert code == 0, said
    full = f"{LAB.max_score} of {LAB.max_score} points"
    assert full in summary.read_text(encoding="utf-8")
    code, said = ran("Comment")
    assert code == 0, said
    assert "repos/me/labs/commits/f00/comments -F body=@report.md" in said
    assert full in said


def test_labs_of_an_authors_own_folder_are_released_and_fetched(tmp_path: Path) -> None:
    own = tmp_path / "own"
    begin_lab("mine", "lab-01", "My Own", own)
    (lab,) = (lab for lab in find_labs([own]) if lab.track == "mine")
    folder = tmp_path / "labs"
    places = [own_place(), place_at(own)]
    done = release_repository(
        folder, [lab], places, auditor=Auditor([lab]), labs_source="../mine", with_solutions=True
    )
    assert done.solutions
    assert (folder / path_of(lab)).is_file()
    assert '"$LABS_SOURCE" ../labs' in steps(folder)["Fetch the labs that are not the kit's"]
    assert "infralens --labs ../labs grade --all" in steps(folder)["Grade"]
    assert "git clone ../mine ../labs" in (folder / "README.md").read_text(encoding="utf-8")


def test_a_page_that_gives_an_answer_away_is_not_released(tmp_path: Path) -> None:
    assert LAB.solution is not None
    answer = max(answer_lines(LAB.solution.read_text(encoding="utf-8")), key=len)
    page = tmp_path / "own" / "exercises" / "handbook" / "tips.md"
    page.parent.mkdir(parents=True)
    (tmp_path / "own" / "suites").mkdir()
    page.write_text(f"Write\n\n    {answer}\n", encoding="utf-8")
    places = [place_at(tmp_path / "own")]
    with pytest.raises(LeakError, match=r"exercises/handbook/tips\.md: an answer to 1\.\d: "):
        release_repository(tmp_path / "labs", [LAB], places, auditor=AUDITOR)
    assert not (tmp_path / "labs").exists()
