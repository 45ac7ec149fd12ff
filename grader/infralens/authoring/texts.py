"""What is proven without grading: stubs, hints, points, pages and the examples in docstrings."""

from __future__ import annotations

import ast
import doctest
import importlib.util
import math
import re
import types
from collections.abc import Iterator
from pathlib import Path

from infralens.authoring.given_away import given_away
from infralens.authoring.idle import idle_assertions
from infralens.authoring.proofs import Proof
from infralens.authoring.unfit import in_words, raised_by, texts_of, unfit_texts
from infralens.labs import Lab
from infralens.library_source import NoSourceError, excerpt
from infralens.pages import anchor, anchors, section
from infralens.quiz import questions_of
from infralens.stubs import MarkerError, answer_lines, stub_of
from infralens.wrong import FILE, BadWrongAnswerError, EditError, wrong_answers

HINTS = 3
LEFT = "TODO:"  # in a template; a stub's own lines read "TODO 3.2:"
QUESTIONS = 3
LONG_LINE = 20  # a shorter line of an answer (`return x`) gives nothing away
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
READ = re.compile(r"Read: (handbook/[\w-]+\.md), \"([^\"]+)\"")
MOST_TOLD = 100  # letters of a link
OUTSIDE = ("http://", "https://", "mailto:")
NEEDED = ("numpy", "safetensors", "torch")  # by the process that runs a submission, for itself


def current_stub(lab: Lab) -> str:
    """The stub that the lab's solution makes now. MarkerError when its markers are wrong."""
    assert lab.solution is not None
    todo_of_name = {name: todo.id for name, todo in lab.todo_of_name.items()}
    return stub_of(lab.solution.read_text(encoding="utf-8"), todo_of_name)


def prove_texts(proof: Proof) -> None:
    """Collect every fault of the lab's texts."""
    lab = proof.lab
    faults = list(unfit_texts(lab))
    for fault in faults:
        proof.fault(fault)
    if faults:
        return
    for todo in lab.todos:
        if todo.points < 1:
            proof.fault(f"todo {todo.id} is worth {todo.points} points")
        if len(todo.hints) != HINTS or not all(todo.hints):
            proof.fault(f"todo {todo.id} has {len(todo.hints)} hints; it needs {HINTS}")
    unfit = list(unfit_edits(lab))
    for fault in unfit or wrong_answer_faults(lab):
        proof.fault(fault)
    problem = broken_link(lab.place.exercises / "page", lab.reading)
    if problem:
        proof.fault(f"lab.yaml: reading is {problem}")
    for name in lab.masked:
        if importlib.util.find_spec(name.split(".")[0]) is None:
            proof.fault(f"lab.yaml: masked is {name}, which no installed package is called")
        if name.split(".")[0] in NEEDED:
            proof.fault(f"lab.yaml: masked is {name}, without which no submission can start")
        for where, text in (("page", _text(lab.page)), ("solution's docstring", _head(lab))):
            if not says_masked(text, name):
                proof.fault(f"{where}: does not say that `{name}` cannot be imported")
    for name in lab.loaded:
        if not _is_module(name):
            proof.fault(f"lab.yaml: loaded is {name}, which no installed module is called")
    for problem in dead_sources(lab):
        proof.fault(problem)
    for problem in dead_readings(_text(lab.solution), lab.place.exercises):
        proof.fault(problem)
    for problem in unfinished(lab):
        proof.fault(problem)
    for problem in suspect_faults(lab):
        proof.fault(problem)
    _prove_page(proof)
    _prove_stub_text(proof)
    for problem in example_faults(lab):
        proof.fault(problem)


def wrong_answer_faults(lab: Lab) -> Iterator[str]:
    """What is wrong with the pages and todos that the wrong answers name."""
    listed = {todo.id for todo in lab.todos}
    for wrong in wrong_answers(lab):
        dead = wrong.reads and broken_link(lab.place.exercises / "page", wrong.reads)
        if dead:
            yield f"{FILE}: {wrong.name} reads {dead}"
        if wrong.todo not in listed:
            yield f"{FILE}: {wrong.name} is for todo {wrong.todo}, which lab.yaml does not list"


def unfit_edits(lab: Lab) -> Iterator[str]:
    """The wrong answers that are no edits of the solution as it is now, or then no Python."""
    solution = _text(lab.solution)
    try:
        for wrong in wrong_answers(lab):
            try:
                compile(wrong.edited(solution), wrong.name, "exec")
            except SyntaxError as error:
                yield f"{FILE}, {wrong.entry}: line {error.lineno} is no Python then"
            except EditError as error:
                yield str(error)
    except BadWrongAnswerError as error:
        yield str(error)


def suspect_faults(lab: Lab) -> Iterator[str]:
    """Where the lab's checks use an answer before an assertion has passed it."""
    from infralens.authoring.early_uses import suspect_uses  # a command of its own, too

    try:
        for use in suspect_uses(lab.suite):
            yield f"{use.path.name}, line {use.line}: {use.sentence}"
    except SyntaxError as error:
        yield f"{Path(error.filename or '').name}, line {error.lineno} is no Python"


def dead_readings(solution: str, exercises: Path) -> Iterator[str]:
    """Every `Read: handbook/page.md, "Section"` of a docstring that leads nowhere."""
    for page, heading in READ.findall(solution):
        if broken_link(exercises / "page", f"{page}#{anchor(heading)}"):
            yield f"a docstring reads {page}, {heading!r}, which is not there"


def dead_sources(lab: Lab) -> Iterator[str]:
    """Every `source` of a todo that the installed library does not have."""
    for todo in lab.todos:
        if todo.source is not None:
            try:
                excerpt(todo.source)
            except NoSourceError as error:
                yield f"lab.yaml: the source of {todo.id}: {error}"


def says_masked(text: str, name: str) -> bool:
    """Whether some sentence of the text names the module and says that it cannot be imported."""
    sentences = re.split(r"(?<=[.:;!?])\s", " ".join(text.split()))
    told = ("import", "masked")
    return any(f"`{name}`" in said and any(word in said for word in told) for said in sentences)


def _text(path: Path | None) -> str:
    return path.read_text(encoding="utf-8") if path is not None and path.is_file() else ""


def _head(lab: Lab) -> str:
    """The docstring at the top of the solution, which the stub has too."""
    try:
        return ast.get_docstring(ast.parse(_text(lab.solution))) or ""
    except SyntaxError:
        return ""


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False


def unfinished(lab: Lab) -> Iterator[str]:
    """Every line of the lab's files that still says what belongs there ("TODO: …")."""
    for path in texts_of(lab):
        if path == lab.stub:  # made of the solution
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if LEFT in line:
                yield f"{path.name} line {number} is left to write: {line.split(LEFT)[1].strip()}"


def _prove_page(proof: Proof) -> None:
    lab = proof.lab
    if not lab.page.is_file():
        proof.fault(f"has no page {lab.page.name} beside its stub")
        return
    for problem in page_faults(lab.page):
        proof.fault(f"page: {problem}")
    page = lab.page.read_text(encoding="utf-8")
    points = re.search(rf"\b{lab.max_score} points?\b", page)
    if points is None:
        proof.fault(f"page: does not say that the lab is worth {lab.max_score} points")
    questions = questions_of(lab)
    if len(questions) < QUESTIONS:
        proof.fault(f"has {len(questions)} checkpoints in quiz.py; it needs {QUESTIONS}")
    asked = " ".join(section(page, "checkpoints").split())
    for question in questions:
        try:
            question.answer()
        except (Exception, SystemExit) as error:
            proof.fault(f"the checkpoint {question.text!r} raises {in_words(error)}")
        if " ".join(question.text.split()) not in asked:
            proof.fault(f"page: the checkpoint {question.text!r} is not under ## Checkpoints")


def _prove_stub_text(proof: Proof) -> None:
    lab = proof.lab
    try:
        stub = current_stub(lab)
    except (MarkerError, SyntaxError) as error:
        proof.fault(f"the solution's markers are wrong: {error}")
        return
    if not lab.stub.is_file() or lab.stub.read_bytes() != stub.encode():
        proof.fault("the stub is not what the solution makes; run `check --write` on it")
    assert lab.solution is not None
    stub_lines = {line.strip() for line in stub.splitlines()}
    for line in answer_lines(lab.solution.read_text(encoding="utf-8")):
        if len(line) > LONG_LINE and line in stub_lines:
            proof.fault(f"a line of an answer stands in the stub as well: {line}")
    for problem in given_away(lab):
        proof.fault(problem)


def page_faults(page: Path) -> Iterator[str]:
    """What is wrong with a Markdown page: dead links, code that does not run or asserts nothing."""
    text = page.read_text(encoding="utf-8")
    for target in LINK.findall(text):
        problem = broken_link(page, target)
        if problem:
            yield f"a link to {problem}"
    import torch  # pages may use it; a check imports it anyway

    namespace = {"torch": torch, "math": math}
    for number, block in enumerate(BLOCK.findall(text), start=1):
        problem = raised_by(block, f"{page.name}, block {number}", namespace)
        if problem:
            yield f"code block {number} raises {problem}"
        else:
            for idle in idle_assertions(block):
                yield f"code block {number} asserts what cannot fail: {idle}"


def broken_link(page: Path, target: str) -> str | None:
    """What is wrong with a link of a page, if anything is."""
    if target.startswith(OUTSIDE):
        return None
    path, _, wanted = target.partition("#")
    try:
        linked = (page.parent / path).resolve() if path else page
        there = linked.exists()
    except (OSError, ValueError):  # no file can be called so
        there = False
    if not there:
        return f"{target[:MOST_TOLD]}, which is not there"
    text = linked.read_text(encoding="utf-8", errors="replace") if linked.is_file() else ""
    if wanted and wanted not in anchors(text):
        return f"{target}, which has no such heading"
    return None


def example_faults(lab: Lab) -> Iterator[str]:
    """What is wrong with the `>>>` examples of a solution: missing, or not giving what they say."""
    assert lab.solution is not None
    source = lab.solution.read_text(encoding="utf-8")
    module = types.ModuleType("solution")
    module.__file__ = str(lab.solution)
    exec(compile(source, str(lab.solution), "exec"), vars(module))
    with_examples = set()
    for test in doctest.DocTestFinder().find(module, globs=vars(module)):
        said: list[str] = []
        result = doctest.DocTestRunner(verbose=False).run(test, out=said.append)
        if result.failed:
            reason = " ".join("".join(said).split())[-200:]
            yield f"the example of {test.name} does not give what it says: … {reason}"
        if test.examples:
            with_examples.add(test.name.split(".")[1])
    for name in lab.todo_of_name:
        if name not in with_examples:
            yield f"{name} has no example in its docstring"
