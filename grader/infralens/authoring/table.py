"""The proofs of labs as a table, one line a fault."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from infralens.authoring.proofs import Proof, margin_lines


def show_proofs(proofs: Sequence[Proof], console: Console, *, margins: bool) -> None:
    """Print a row a lab, the margins if wanted, then the faults."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for column in ("lab", "points", "checks", "wrong", "grades"):
        left = column == "lab"
        table.add_column(column, justify="left" if left else "right", no_wrap=True)
    for column in ("used", "half", "nearest", "zeros", "faults"):
        table.add_column(column, justify="right", no_wrap=True)
    for proof in proofs:
        rows = [row for row in proof.margins.values() if row.numeric]
        table.add_row(
            proof.lab.short,
            str(proof.lab.max_score),
            str(len(proof.margins)),
            str(proof.misconceptions),
            str(proof.grades),
            _figure(max((row.solution for row in rows), default=None)),
            _figure(max((row.half for row in rows), default=0.0) or None),
            _figure(min((row.nearest for row in rows), default=None)),
            _figure(min((row.zeros for row in rows), default=None)),
            str(len(proof.faults)),
        )
    console.print(table)
    console.print(
        "wrong: misconceptions. In tolerances, worst check of the lab: used (by the solution; "
        "half, in half precision), nearest (by which a wrong answer misses), zeros (would miss by)."
    )
    if margins:
        for proof in proofs:
            console.print()
            console.print("\n".join(margin_lines(proof)), soft_wrap=True)
    confusions = [
        f"{proof.lab.short}: {confusion.sentence}"
        for proof in proofs
        for confusion in proof.confusions
    ]
    if confusions:
        console.print("\nUnder another's name; is what it says true of them?")
        console.print("\n".join(confusions), soft_wrap=True)
        console.print()
    for proof in proofs:
        for fault in proof.faults:
            console.print(f"{fault.lab}: {fault.sentence}", soft_wrap=True)
        if proof.texts_alone:
            sentence = "nothing was graded: mend its texts first, or ask for --despite-texts"
            console.print(f"{proof.lab.short}: {sentence}", soft_wrap=True)


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
