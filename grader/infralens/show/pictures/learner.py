"""The submission in a candidate, and what goes wrong in it as one sentence."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from infralens.examiner.candidate.link import Link, linked
from infralens.examiner.candidate.submission import read_submission
from infralens.examiner.errors import (
    LearnerError,
    MismatchError,
    NoAnswerError,
    SubmissionError,
    UngradableError,
)
from infralens.examiner.isolation.killing import adopt_orphans, kill_descendants
from infralens.examiner.run.trial import Trial, running
from infralens.examiner.service.stock import Setting, Spares, setting_of
from infralens.labs import Lab
from infralens.show.pictures.answers import NotDrawnError

SANDBOX_PROCESSES = 64  # as when it is graded


@contextlib.contextmanager
def candidate_of(lab: Lab, submission: Path) -> Iterator[Any]:
    """The functions of the file, each run in a candidate: a sandbox where there is one.

    This process must have no other children: what a submission leaves behind is killed with them.
    Raises UnreadableError where there is no file, and NotDrawnError for whatever its code does
    other than answer.
    """
    text = read_submission(submission)
    setting = _setting(lab)
    adopt_orphans()
    spares = Spares(more_will_follow=False)
    link = Link(
        lab,
        text,
        lambda: spares.take(setting),
        limit_address_space=True,
        max_processes=SANDBOX_PROCESSES if setting.isolation == "sandbox" else None,
    )
    trial = Trial()
    try:
        with running(trial), linked(link) as candidate:
            yield candidate
    except UngradableError as error:
        raise NotDrawnError(_sentence(str(error))) from None
    except LearnerError as error:
        raise NotDrawnError(_told(error, trial)) from None
    except NoAnswerError as error:
        raise NotDrawnError(_sentence(_during(trial, error) + str(error))) from None
    except MismatchError as error:  # it names the function itself
        raise NotDrawnError(_sentence(str(error))) from None
    finally:
        spares.close()
        kill_descendants()
        spares.sweep()


def _setting(lab: Lab) -> Setting:
    wanted = {"isolation": "auto", "device": "cpu", "processes": 1}
    return setting_of({**wanted, "masked": lab.masked, "loaded": lab.loaded})


def _called(trial: Trial) -> str:
    """The learner's function that was called last; empty before any."""
    return trial.calls[-1].name if trial.calls else ""


def _during(trial: Trial, error: SubmissionError) -> str:
    called = "" if error.loading else _called(trial)
    return f"In `{called}`: " if called else ""


def _told(error: LearnerError, trial: Trial) -> str:
    """What the learner's code raised, and in which function."""
    if error.not_started:
        todo, _, name = error.raised.text.removeprefix("TODO ").partition(": ")
        return f"{todo} ({name or _called(trial)}) is not started."
    return _sentence(_during(trial, error) + error.sentence)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."
