"""What the library says in every check of a lab, in whatever release this process finds.

    python -P -m infralens.drift.recording SEED FOLDER LAB…

Each lab's own solution is run through the suite, in this process. The values of the library's that
it is compared with, and the answers to the lab's questions, are written to FOLDER/TRACK-LAB.pt.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from infralens.drift.places import DONE
from infralens.examiner.mistakes.rehearse import rehearsed
from infralens.examiner.mistakes.replays import Replays
from infralens.examiner.run.suites import ImportedSuites
from infralens.examiner.run.trial import current_trial
from infralens.labs import Lab, find_lab, find_labs
from infralens.quiz import questions_of

PLAIN = (bool, int, float, str, bytes, type(None), torch.dtype, torch.device)
Place = tuple[str, int, int]  # a case, its round, which comparison; a question has none: 0


@dataclass
class Recording:
    """What was heard in one lab, and the cases that came to no good end."""

    release: str
    heard: dict[Place, Any] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)  # a case: what was said of it

    def hear(self, answer: Any) -> Any:
        """Note an answer of the library's, and give it back."""
        trial = current_trial()
        self.heard[trial.case, trial.round_, trial.compared] = kept(answer)
        return answer


def kept(value: Any) -> Any:
    """The value in kinds that a file can hold without code; a text where it is another."""
    if isinstance(value, Tensor):
        return value.detach().cpu().clone()
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy())
    if isinstance(value, list | tuple):
        return [kept(item) for item in value]
    if isinstance(value, dict):
        return {str(key): kept(item) for key, item in value.items()}
    return value if isinstance(value, PLAIN) else f"{type(value).__name__}: {value!r}"


def record(lab: Lab, seed: int) -> Recording:
    """Run the solution, and hear the library meanwhile."""
    import diffusers

    diffusers.utils.logging.set_verbosity_error()
    torch.set_num_threads(1)  # sums are made in one order
    recording = Recording(diffusers.__version__)
    assert lab.solution is not None
    plugin = rehearsed(
        lab,
        lab.solution.read_text(encoding="utf-8"),
        ImportedSuites(),
        Replays(),
        seed=seed,
        device="cpu",
        todos=frozenset(todo.id for todo in lab.todos),
        emit=lambda event: None,
        naming="none",
        hear=recording.hear,
    )
    for outcomes in plugin.results.outcomes.values():
        for outcome in outcomes:
            if outcome.status != "passed":
                recording.failed[outcome.case] = outcome.message
    if plugin.fault is not None and not recording.failed:
        recording.failed["the suite"] = plugin.fault
    _hear_questions(lab, recording)
    return recording


def _hear_questions(lab: Lab, recording: Recording) -> None:
    """Among them are the places where the library slips, which checks stay away from."""
    for number, question in enumerate(questions_of(lab), 1):
        case = f"quiz.py::question {number}"
        try:
            recording.heard[case, 0, 0] = kept(question.answer())
        except Exception as error:
            recording.failed[case] = f"raised {type(error).__name__}: {error}"


def file_of(lab: Lab, folder: Path) -> Path:
    """Where a lab's recording is written."""
    return folder / f"{lab.track}-{lab.name}.pt"


def read(path: Path) -> Recording:
    """A recording that `main` wrote. Nothing in it is run."""
    found = torch.load(path, weights_only=True)
    return Recording(found["release"], found["heard"], found["failed"])


def main(arguments: list[str]) -> None:
    seed, folder, *names = arguments
    for name in names:
        lab = find_lab(name, find_labs())
        done = record(lab, int(seed))
        told = {"release": done.release, "heard": done.heard, "failed": done.failed}
        torch.save(told, file_of(lab, Path(folder)))
        print(f"{DONE}{lab.id}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
