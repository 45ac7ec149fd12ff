"""`infralens debug`: the failing call again, in this very process, with a debugger in it."""

from __future__ import annotations

import contextlib
import os
import pdb
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from diffusers.utils import logging

from infralens.candidate.loading import be_a_notebook, begin, load, run_cell
from infralens.examiner.candidate.in_process import RehearsedCandidate, run_plainly
from infralens.examiner.candidate.submission import Submission, read_submission
from infralens.examiner.compare.inputs import Draw
from infralens.examiner.errors import LearnerError, MismatchError
from infralens.examiner.run.cases import case_id
from infralens.examiner.run.plugin import PLAIN_PYTEST
from infralens.examiner.run.trial import Trial, running
from infralens.labs import Lab


def debug_call(
    lab: Lab, submission: Path, *, case: str, call_index: int, seed: int, round_: int = 0
) -> str:
    """Run one case of one check; stop in pdb at the first line of its call number `call_index`.

    In round 1 the case is run before that on its first inputs, as the grade did: what went wrong
    then may be something that was remembered.
    Returns what the check says afterwards. The inputs are those of the grade with this seed.
    """
    logging.set_verbosity_error()
    text = read_submission(submission)
    module = _loaded(text)
    given: dict[str, ModuleType] = {}
    plain = RehearsedCandidate(vars(module), given=given)
    stopping = RehearsedCandidate(vars(module), _stopping_at(call_index), given)
    plugin = _OneCase(case, [plain] * round_ + [stopping], seed)
    suite = map(str, sorted(lab.suite.glob("test_*.py")))
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # as in a grade
    pytest.main([*PLAIN_PYTEST, f"--rootdir={lab.suite}", *suite], plugins=[plugin])
    return plugin.said


def _loaded(submission: Submission) -> ModuleType:
    """The submission as a module; a notebook's cells one by one, whatever one of them raises."""
    if not submission.cells:
        return load(submission.text, submission.filename)
    module = begin(submission.text, submission.filename)
    be_a_notebook(module)
    flags = 0
    for cell in submission.cells:
        with contextlib.suppress(Exception):
            flags = run_cell(module, cell.source, cell.first, flags)
    return module


def _stopping_at(wanted: int) -> Callable[..., Any]:
    def run(
        index: int, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if index != wanted:
            return run_plainly(index, function, args, kwargs)
        debugger = _Debugger()
        answer = run_plainly(index, debugger.runcall, (function, *args), kwargs)
        if debugger.left:
            raise MismatchError("you left the debugger", answer=None)
        return answer

    return run


class _Debugger(pdb.Pdb):
    """pdb that remembers whether it was left with `q`: runcall itself swallows that."""

    left = False

    def do_quit(self, arg: str) -> bool | None:
        self.left = True
        return super().do_quit(arg)

    do_q = do_exit = do_quit

    def do_EOF(self, arg: str) -> bool | None:  # noqa: N802  # pdb's own name for Ctrl-D
        print()
        return self.do_quit(arg)


class _OneCase:
    """A pytest plugin that runs the case of this name, once a round, and nothing else."""

    def __init__(self, case: str, candidates: list[RehearsedCandidate], seed: int) -> None:
        self.case, self.candidates, self.seed = case, candidates, seed
        self.said = "the check did not run"

    @pytest.fixture
    def candidate(self) -> RehearsedCandidate:
        return self.candidates[-1]

    @pytest.fixture
    def draw(self, request: pytest.FixtureRequest) -> Draw:
        return Draw(self.seed, case_id(request.node))

    @pytest.fixture
    def device(self) -> str:
        return "cpu"

    def pytest_configure(self, config: pytest.Config) -> None:
        config.addinivalue_line("markers", "todo(id): the todo that this check belongs to")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.name == self.case]

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool:
        names = pyfuncitem._fixtureinfo.argnames
        arguments = {name: pyfuncitem.funcargs[name] for name in names}
        torch.set_num_threads(1)
        try:
            for round_, candidate in enumerate(self.candidates):
                arguments["candidate"] = candidate
                if round_:
                    arguments["draw"] = Draw(self.seed, case_id(pyfuncitem), round_=round_)
                with running(Trial()):
                    pyfuncitem.obj(**arguments)
        except (MismatchError, LearnerError) as failure:
            self.said = str(failure)
        else:
            self.said = "the check passes now"
        return True
