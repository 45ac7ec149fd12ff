"""What the corpus itself must be."""

from __future__ import annotations

import pytest
from arena import (
    ABOUT_THE_MACHINERY,
    BREAKS,
    KINDS,
    Attack,
    SetAt,
    labs_with_solutions,
    one_of_each_kind,
    pairs,
    read_corpus,
)

LEAST_FILES = 60
PAIRS = pairs()


@pytest.mark.parametrize("attack", read_corpus(), ids=lambda attack: attack.path.stem)
def test_every_file_says_what_it_is(attack: Attack) -> None:
    """Aim, kind, what it relies on, and how it breaks a naive grader."""
    assert attack.aim.endswith(".")
    assert attack.kind in KINDS
    assert attack.relies_on
    assert attack.level in ("process", "sandbox")
    assert attack.is_control or (attack.breaks and set(attack.breaks) <= set(BREAKS))
    assert attack.is_control == (attack.path.parent.name == "controls")


def test_there_are_several_attacks_of_every_kind() -> None:
    """A kind with one attack is a kind nobody has thought about."""
    kinds = [attack.kind for attack in read_corpus()]
    assert len(kinds) >= LEAST_FILES
    assert all(kinds.count(kind) >= 3 for kind in KINDS)


def test_refused_files_are_refused_in_a_sentence(set_at: SetAt) -> None:
    """What is no file is refused before anything runs, and earns nothing."""
    for attack, lab in PAIRS:
        if attack.name in ("directory", "named_pipe", "dev_zero", "no_file"):
            outcome = set_at(attack, lab, None)
            assert outcome.refused is not None
            assert outcome.points == 0


def test_every_attack_is_set_at_a_lab_and_every_real_lab_meets_each_kind() -> None:
    """The machinery is attacked on the small lab, what answers are on lab 03; controls on both."""
    assert {attack.path for attack, _ in PAIRS} == {attack.path for attack in read_corpus()}
    small = {attack.kind for attack, lab in PAIRS if lab.track == "attacks"}
    assert small >= {*ABOUT_THE_MACHINERY, "Controls"}
    for lab in labs_with_solutions():
        met = {a.kind for a, at in (*PAIRS, *one_of_each_kind()) if at.id == lab.id}
        assert met == set(KINDS), lab.id
