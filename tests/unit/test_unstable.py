"""Private names of other libraries: listed, there, and no others are used."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import infralens
from infralens import doctor, unstable

PACKAGE = Path(infralens.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))
# Documented for all their underscore: of named tuples, and of what diffusers keeps in configs.
PUBLIC = {"_replace", "_asdict", "_make", "_fields", "_class_name", "_diffusers_version"}
PUBLIC |= {"_use_default_values"}
CLASS_METHODS = {"from_pipe", "from_pretrained", "load_config", "save_lora_weights"}
LIBRARIES = ("diffusers", "transformers", "peft", "torch", "_pytest", "pytest", "accelerate")
EXPERIMENTAL = ("diffusers.modular_pipelines", "diffusers.guiders")
LISTED = {one.name for one in unstable.UNSTABLE}


Nodes = Sequence[ast.AST]  # of a whole file


def parsed(text: str) -> Nodes:
    return tuple(ast.walk(ast.parse(text)))


def is_private(name: str) -> bool:
    return name.isidentifier() and name[0] == "_" and name[1:2] not in ("", "_")


def defined(nodes: Nodes) -> Iterator[str]:
    """The private names that a file gives to what is its own."""
    for node in nodes:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.Name(ctx=ast.Store()):
                yield node.id
            case ast.Attribute(value=ast.Name(id="self" | "cls"), ctx=ast.Store()):
                yield node.attr
            case ast.Call(
                func=ast.Attribute(attr="__setattr__"), args=[_, ast.Constant(value=str(name)), _]
            ):
                yield name


def used(nodes: Nodes) -> Iterator[str]:
    """The private names that a file takes from something: `x._a`, `getattr(x, "_a")`, `x["_a"]`."""
    standard = set(standard_modules(nodes))
    for node in nodes:
        match node:
            case ast.Attribute(value=ast.Name(id=owner)) if owner in standard:
                continue
            case ast.Attribute(attr=name):
                yield name
            case ast.Call(
                func=ast.Name(id="getattr" | "hasattr" | "setattr"),
                args=[_, ast.Constant(value=str(name)), *_],
            ):
                yield name
            case ast.Subscript(slice=ast.Constant(value=str(name))):
                yield name


def standard_modules(nodes: Nodes) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] in sys.stdlib_module_names:
                    yield (alias.asname or alias.name).split(".")[0]


def imported(nodes: Nodes) -> Iterator[tuple[str, str]]:
    """What a file imports from which module of these libraries."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in LIBRARIES:
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] in LIBRARIES:
                    yield alias.name, ""


def read_from_files(nodes: Nodes) -> Iterator[str]:
    """The functions that are read out of files of diffusers, from the package on."""
    for node in nodes:
        match node:
            case ast.Call(
                func=ast.Name(id="library_function"),
                args=[ast.Constant(value=str(path)), ast.Constant(value=str(name))],
            ):
                yield f"diffusers.{path.removesuffix('.py').replace('/', '.')}.{name}"


def called_with_a_stand_in(nodes: Nodes) -> Iterator[str]:
    """Methods of pipelines that are called as functions: `XPipeline.method(self, …)`."""
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=method)):
                if owner.endswith("Pipeline") and method not in CLASS_METHODS:
                    yield f"{owner}.{method}"


def strangers(nodes: Nodes, own: frozenset[str] = frozenset()) -> list[str]:
    """What a file takes from a library that may change, and that the list lacks."""
    known_parts = {part for name in LISTED for part in name.split(".")}
    private = {name for name in used(nodes) if is_private(name)} - own - set(defined(nodes))
    found = sorted(private - known_parts - PUBLIC)
    for module, name in imported(nodes):
        hidden = any(is_private(part) for part in (*module.split("."), name))
        if hidden or module.startswith(EXPERIMENTAL):
            # A package may hand on what a module of it defines.
            known = [
                one for one in LISTED if one.startswith(f"{module}.") and one.endswith(f".{name}")
            ]
            found += [] if known else [f"{module}.{name}"]
    found += sorted(set(read_from_files(nodes)) - LISTED)
    found += sorted(
        method
        for method in called_with_a_stand_in(nodes)
        if not any(name.endswith(f".{method}") for name in LISTED)
    )
    return found


@pytest.fixture(scope="module")
def trees() -> dict[Path, Nodes]:
    return {path: parsed(path.read_text(encoding="utf-8")) for path in SOURCES}


def test_nothing_else_of_a_library_is_used_that_may_change(trees: dict[Path, Nodes]) -> None:
    solutions = sorted((PACKAGE.parents[1] / "solutions").rglob("*.py"))
    ours = [*trees.values(), *(parsed(path.read_text(encoding="utf-8")) for path in solutions)]
    own = frozenset(name for nodes in ours for name in defined(nodes))
    found = {path.name: names for path, nodes in trees.items() if (names := strangers(nodes, own))}
    assert not found, "say in unstable.py why it is needed"


def words(nodes: Nodes) -> Iterator[str]:
    for node in nodes:
        match node:
            case ast.Attribute(attr=word) | ast.Name(id=word) | ast.alias(name=word):
                yield word
            case ast.Constant(value=str(text)):
                yield from text.split(".")


def test_what_is_listed_is_used(trees: dict[Path, Nodes]) -> None:
    others = (nodes for path, nodes in trees.items() if path.name != "unstable.py")
    found = {word for nodes in others for word in words(nodes)}
    assert not [name for name in LISTED if name.rpartition(".")[2] not in found]


@pytest.mark.parametrize(
    "line",
    [
        "unet._private",
        "getattr(scheduler, '_private')",
        "vars(module)['_private']",
        "pipe._private = 1",
        "from torch._dynamo import config",
        "import torch._dynamo",
        "from diffusers.modular_pipelines import AutoPipelineBlocks",
        "library_function('pipelines/flux/pipeline_flux.py', 'retrieve_timesteps')",
        "FluxPipeline.prepare_latents(stand_in)",
    ],
)
def test_a_name_that_is_not_listed_is_found(line: str) -> None:
    assert len(strangers(parsed(line))) == 1


def test_every_name_is_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not unstable.missing()
    gone = ["torch._gone", "torch._no.one"]
    monkeypatch.setattr(sys, "argv", ["", *unstable.compiled(), *gone])
    exec(doctor.PROBE, {})  # a process of its own would load torch again
    assert json.loads(capsys.readouterr().out)[-1] == gone


def test_a_name_that_is_gone_is_told_with_its_reason(tmp_path: Path) -> None:
    """One name is there, one is not, and the other packages are not installed."""
    folder = tmp_path / "diffusers" / "schedulers"
    folder.mkdir(parents=True)
    for inside in (folder.parent, folder):
        (inside / "__init__.py").write_text("", encoding="utf-8")
    (folder / "scheduling_ddpm.py").write_text(
        "class DDPMScheduler:\n"
        "    def _threshold_sample(self): other._get_variance = 1\n"
        "    def variance(self): pass\n",
        encoding="utf-8",
    )
    gone = {one.name for one in unstable.missing([str(tmp_path)])}
    scheduler = "diffusers.schedulers.scheduling_ddpm.DDPMScheduler"
    assert f"{scheduler}._get_variance" in gone
    assert f"{scheduler}._threshold_sample" not in gone
    assert "_pytest.python.Function._fixtureinfo" in gone
    finding = doctor.names([f"{scheduler}._get_variance"])
    assert not finding.good
    assert "lab 02" in " ".join(finding.listed)


@pytest.mark.parametrize(("installed", "told"), [("0.36.0", False), ("0.37.0rc1", True)])
def test_a_name_that_is_newer_than_the_release_is_not_missed(
    tmp_path: Path, installed: str, told: bool
) -> None:
    about = tmp_path / f"diffusers-{installed}.dist-info" / "METADATA"
    about.parent.mkdir()
    about.write_text(f"Name: diffusers\nVersion: {installed}\n", encoding="utf-8")
    newer = {one.name for one in unstable.UNSTABLE if one.since == "0.37"}
    assert newer
    assert (newer <= {one.name for one in unstable.missing([str(tmp_path)])}) is told


def test_the_tested_releases_are_those_of_the_constraints() -> None:
    lines = (PACKAGE.parents[1] / "constraints.txt").read_text(encoding="utf-8").splitlines()
    for package in doctor.PACKAGES:
        assert f"{package}=={doctor.tested()[package]}" in lines


def test_a_release_in_a_range_that_was_graded_is_no_untested_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = ["diffusers<0.43,>=0.36", "torch>=2.6", "nbgrader<2,>=0.9; extra == 'course'"]
    monkeypatch.setattr(doctor, "requires", lambda _: known)
    for package, release, advice in (
        ("diffusers", "0.36.0", ""),
        ("diffusers", "0.41.0", ""),
        ("diffusers", "0.35.2", "tested with"),
        ("diffusers", "0.43.0", "tested with"),
        ("torch", "2.6.0", "tested with"),
    ):
        monkeypatch.setattr(doctor, "version", lambda _, release=release: release)
        assert doctor.installed(package).advice.startswith(advice)
        assert bool(doctor.installed(package).advice) == bool(advice)
