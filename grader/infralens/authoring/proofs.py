"""The record of a proof: the faults of a lab, and how clearly each check tells right from wrong."""

from __future__ import annotations

from dataclasses import dataclass, field

from infralens.labs import Lab


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with a lab, in a sentence."""

    lab: str
    sentence: str


@dataclass
class MarginRow:
    """How clearly one check tells right from wrong, in multiples of its tolerance.

    `solution` and `half` are the most that the solution used (in half precision), `nearest` the
    least that a misconception missed by, `zeros` the least that the all-zeros answer would.
    """

    check: str
    todo: str
    solution: float = 0.0
    half: float = 0.0
    nearest: float = float("inf")
    nearest_name: str = ""
    zeros: float = float("inf")
    kills: list[str] = field(default_factory=list)
    only_killer_of: list[str] = field(default_factory=list)
    guards: str = ""
    numeric: bool = False


@dataclass(frozen=True)
class Confusion:
    """A wrong answer that goes under another's name in these checks; `everywhere`: in all it fails.

    The sentence of that name should be true of it.
    """

    todo: str
    wrong: str
    named: str
    explanation: str
    checks: tuple[str, ...]
    everywhere: bool

    @property
    def sentence(self) -> str:
        where = "everywhere" if self.everywhere else f"in {', '.join(self.checks)}"
        return f"{self.todo} {self.wrong} is named {self.named} {where}: {self.explanation}"


@dataclass
class Proof:
    """What was found out about one lab. No faults is what an author wants to see."""

    lab: Lab
    faults: list[Fault] = field(default_factory=list)
    margins: dict[str, MarginRow] = field(default_factory=dict)
    confusions: list[Confusion] = field(default_factory=list)
    misconceptions: int = 0
    grades: int = 0
    texts_alone: bool = False  # they have faults, so that nothing was graded

    def fault(self, sentence: str) -> None:
        self.faults.append(Fault(self.lab.short, sentence))


def margin_lines(proof: Proof) -> list[str]:
    """The margins of every check, in tolerances: used by the solution, missed by wrong answers."""
    lines = [f"{proof.lab.short}: {proof.grades} grades, {proof.misconceptions} misconceptions"]
    for row in proof.margins.values():
        name = row.check.removeprefix("test_")
        if not row.numeric:
            lines.append(f"  {row.todo}  exact  {name}")
            continue
        used = f"{row.solution:.3f}" + (f" (half {row.half:.3f})" if row.half else "")
        lines.append(
            f"  {row.todo}  solution {used}, nearest wrong {row.nearest:.2g}, "
            f"zeros {row.zeros:.2g}  {name}"
        )
    return lines
