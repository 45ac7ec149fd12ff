"""Who may know whom; and what answers at once must not import torch."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import infralens

PACKAGE = Path(infralens.__file__).parent
ALL = "infralens"

# The longest prefix that fits a module decides which modules of ours it may import.
MAY_KNOW = {
    "infralens.documents": ("infralens.regular",),
    "infralens.importing": (),
    "infralens.labs": ("infralens.documents",),
    "infralens.curriculum": ("infralens.documents", "infralens.labs"),
    "infralens.interview": ("infralens.documents", "infralens.labs"),
    "infralens.library_source": ("infralens.labs",),
    "infralens.wrong": ("infralens.documents", "infralens.labs"),
    "infralens.report": (),
    "infralens.wire": (),
    "infralens.stubs": (),
    "infralens.pages": (),
    "infralens.regular": (),
    "infralens.revisions": ("infralens.examiner.isolation.bubblewrap", "infralens.regular"),
    "infralens.unstable": ("infralens.library_source",),
    # It says which isolation is there by asking those who make it.
    "infralens.doctor": (
        "infralens.labs",
        "infralens.unstable",
        "infralens.examiner.isolation.bubblewrap",
        "infralens.examiner.isolation.probes",
        "infralens.examiner.isolation.seccomp",
        "infralens.examiner.isolation.system",
        "infralens.examiner.isolation.launch",
        "infralens.examiner.isolation.entered",
    ),
    "infralens.candidate": ("infralens.wire", "infralens.candidate"),
    "infralens.examiner": (
        "infralens.importing",
        "infralens.wire",
        "infralens.labs",
        "infralens.wrong",
        "infralens.report",
        "infralens.examiner",
    ),
    "infralens.drift": (
        "infralens.labs",
        "infralens.quiz",
        "infralens.examiner",
        "infralens.drift",
    ),
    "infralens.quiz": ("infralens.labs",),
    "infralens.passages": ("infralens.labs", "infralens.pages", "infralens.wrong"),
    "infralens.workspace": ("infralens.labs", "infralens.report", "infralens.regular"),
    "infralens.grading": ("infralens.labs", "infralens.report", "infralens.examiner"),
    # The two places where a submission runs in the caller's process: it is the learner's own.
    "infralens.debugging": (
        "infralens.labs",
        "infralens.report",
        "infralens.examiner",
        "infralens.candidate.loading",
    ),
    "infralens.trying": (
        "infralens.examiner.compare.describe",
        "infralens.examiner.candidate.submission",
        "infralens.examiner.errors",
        "infralens.candidate.loading",
        "infralens.shapes",
    ),
    "infralens.watching": (
        "infralens.labs",
        "infralens.report",
        "infralens.grading",
        "infralens.regular",
        "infralens.workspace",
        "infralens.show",
        "infralens.examiner.candidate.submission",
        "infralens.examiner.errors",
        "infralens.examiner.service.log",
    ),
    "infralens.show": (
        "infralens.labs",
        "infralens.report",
        "infralens.grading",
        "infralens.pages",
        "infralens.passages",
        "infralens.curriculum",
        "infralens.show",
    ),
    "infralens.show.site": (
        "infralens.curriculum",
        "infralens.labs",
        "infralens.pages",
        "infralens.show.site",
    ),
    # A learner's code draws, in a candidate, on the exact denoiser of the shipped pictures.
    "infralens.show.pictures": (
        "infralens.labs",
        "infralens.regular",
        "infralens.examiner.candidate",
        "infralens.examiner.compare.describe",
        "infralens.examiner.errors",
        "infralens.examiner.isolation.killing",
        "infralens.examiner.isolation.ourselves",
        "infralens.examiner.run.trial",
        "infralens.examiner.service.stock",
        "infralens.shapes",
        "infralens.show",
        "infralens.wire",
    ),
    # What runs where Gradescope grades tells apart what cannot be graded and what fails.
    "infralens.course.gradescope_run": (
        "infralens.labs",
        "infralens.report",
        "infralens.grading",
        "infralens.regular",
        "infralens.show",
        "infralens.examiner.errors",
        "infralens.examiner.isolation.bubblewrap",
        "infralens.course",
    ),
    "infralens.course": (
        "infralens.documents",
        "infralens.labs",
        "infralens.report",
        "infralens.grading",
        "infralens.stubs",
        "infralens.pages",
        "infralens.passages",
        "infralens.regular",
        "infralens.revisions",
        "infralens.show",
        "infralens.course",
    ),
    # Who grades a class refuses what `grade` refuses, and says so in the same words.
    "infralens.course.batch": (
        "infralens.labs",
        "infralens.report",
        "infralens.grading",
        "infralens.regular",
        "infralens.examiner.errors",
        "infralens.examiner.isolation.bubblewrap",
        "infralens.examiner.isolation.folders",
        "infralens.examiner.service.protocol",
        "infralens.examiner.service.result",
        "infralens.course",
    ),
    "infralens.course.autograde": (
        "infralens.labs",
        "infralens.report",
        "infralens.regular",
        "infralens.show",
        "infralens.examiner.isolation.bubblewrap",
        "infralens.course",
    ),
    # It keeps an examiner for a kernel, and says why there is no verdict.
    "infralens.course.warm": (
        "infralens.labs",
        "infralens.grading",
        "infralens.examiner.errors",
    ),
    "infralens.authoring": (
        "infralens.labs",
        "infralens.library_source",
        "infralens.curriculum",
        "infralens.interview",
        "infralens.wrong",
        "infralens.report",
        "infralens.grading",
        "infralens.stubs",
        "infralens.pages",
        "infralens.quiz",
        "infralens.workspace",
        "infralens.regular",
        "infralens.revisions",
        "infralens.authoring",
    ),
    # It draws the pages' figures with the solutions, as `show` draws with a learner's file.
    "infralens.authoring.figures": (
        "infralens.labs",
        "infralens.regular",
        "infralens.shapes",
        "infralens.show.pictures",
        "infralens.wrong",
        # A candidate of a solution, as a test of `show` has one.
        "infralens.examiner.candidate.in_process",
        "infralens.examiner.run.trial",
        "infralens.authoring.figures",
    ),
    # The shipped model is a reference of theirs, as those of diffusers are.
    "infralens.suites": (
        "infralens.examiner",
        "infralens.shapes",
        "infralens.suites.configs",
        "infralens.suites.networks",
        "infralens.suites.pipelines",
        "infralens.suites.releases",
        "infralens.suites.schedulers",
    ),
    "infralens.shapes": ("infralens.importing", "infralens.shapes"),
    "infralens.cli": (ALL,),
    "infralens.__main__": ("infralens.cli",),
}
QUIZ = (*MAY_KNOW["infralens.suites"], "infralens.quiz")
SUITES_MAY_USE = {
    *("torch", "numpy", "pytest", "packaging"),
    *("diffusers", "accelerate", "peft", "safetensors", "tokenizers", "transformers"),
}
SOURCES = sorted(PACKAGE.rglob("*.py"))


def module_of(path: Path) -> str:
    parts = ["infralens", *path.relative_to(PACKAGE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path) -> Iterator[str]:
    """Every module that a file imports, wherever in it the import stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import hides whom it knows"
            module = node.module or ""
            for alias in node.names:
                inner = f"{module}.{alias.name}"
                yield inner if is_module(inner) else module


def is_module(name: str) -> bool:
    path = PACKAGE.parent / Path(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def within(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def allowed(path: Path) -> tuple[str, ...]:
    module = module_of(path)
    if within(module, "infralens.suites.diffusers") or within(module, "infralens.suites.diffsynth"):
        own = module_of(path.parent / "__init__.py")  # helpers beside the checks, of this lab only
        return (*(QUIZ if path.name == "quiz.py" else MAY_KNOW["infralens.suites"]), own)
    rules = [prefix for prefix in MAY_KNOW if within(module, prefix)]
    assert rules, f"{module} is new: say in this test whom it may know"
    return MAY_KNOW[max(rules, key=len)]


@pytest.mark.parametrize("path", SOURCES, ids=module_of)
def test_a_module_knows_only_whom_it_may(path: Path) -> None:
    if path == PACKAGE / "__init__.py":
        assert set(imported(path)) == {"infralens.course.kernel"}  # for %load_ext infralens
        assert not [name for name in modules_after("import infralens") if within(name, f"{ALL}.")]
        return
    may = allowed(path)
    ours = {name for name in imported(path) if within(name, ALL) and name != ALL}
    strangers = {name for name in ours if not any(within(name, prefix) for prefix in may)}
    assert not strangers


def test_nobody_knows_the_command_line() -> None:
    others = [path for path in SOURCES if path != PACKAGE / "__main__.py"]
    knowing = [module_of(path) for path in others if "infralens.cli" in imported(path)]
    assert not knowing


@pytest.mark.parametrize(
    "path", sorted((PACKAGE / "candidate").rglob("*.py")), ids=lambda path: path.stem
)
def test_the_candidate_has_neither_diffusers_nor_pytest(path: Path) -> None:
    roots = {name.split(".")[0] for name in imported(path)}
    assert not roots & {"diffusers", "pytest", "transformers"}


@pytest.mark.parametrize(
    "path", sorted((PACKAGE / "suites").rglob("*.py")), ids=lambda path: path.parent.name
)
def test_a_suite_uses_the_examiner_diffusers_and_little_else(path: Path) -> None:
    roots = {name.split(".")[0] for name in imported(path)} - {ALL}
    assert roots - set(sys.stdlib_module_names) <= SUITES_MAY_USE


def test_importing_the_candidate_loads_neither_diffusers_nor_pytest_nor_the_examiner() -> None:
    loaded = modules_after("import infralens.candidate.serving")
    assert not [
        name
        for name in loaded
        if name.split(".")[0] in ("diffusers", "pytest", "transformers")
        or within(name, "infralens.examiner")
        or within(name, "infralens.suites")
    ]


def modules_after(code: str) -> list[str]:
    report = "import sys; print(); print('MODULES', *sys.modules)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"{code}\n{report}"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    return done.stdout.rsplit("MODULES", 1)[1].split()


COMMANDS = [
    ["--help"],
    ["--version"],
    ["list"],
    ["read", "lab-03"],
    ["hint", "3.2", "--again"],
    ["show", "lab-06", "--out", "picture.gif"],
    ["grade", "--help"],
    ["grade", "no-such-lab"],
    ["release", "--help"],
    ["audit", "no-such-folder"],
    ["site", "no-such-folder/site"],
]


HEAVY = {"torch", "diffusers", "numpy", "pytest", "matplotlib"}


def test_what_only_shows_does_not_import_torch() -> None:
    loaded = modules_after(
        "import contextlib, sys\n"
        "from infralens.cli import main\n"
        f"for command in {COMMANDS!r}:\n"
        "    with contextlib.suppress(SystemExit): main(command)\n"
        f"    loaded = {HEAVY!r}.intersection(sys.modules)\n"
        "    assert not loaded, (command, loaded)"
    )
    assert "infralens.cli" in loaded


def test_an_exception_is_defined_once_and_the_examiners_in_one_module() -> None:
    homes: dict[str, list[str]] = {}
    for path in SOURCES:
        if not path.is_relative_to(PACKAGE / "suites"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef) and node.name.endswith("Error"):
                    homes.setdefault(node.name, []).append(module_of(path))
    assert not {name: where for name, where in homes.items() if len(where) > 1}
    ours = {where for where, *_ in homes.values() if within(where, "infralens.examiner")}
    assert ours == {"infralens.examiner.errors"}
