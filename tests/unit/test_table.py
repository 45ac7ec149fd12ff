"""The proofs of labs as a table."""

from __future__ import annotations

import io

from rich.console import Console

from infralens.authoring.proofs import Confusion, MarginRow, Proof
from infralens.authoring.table import show_proofs
from infralens.labs import find_labs


def test_the_table_can_be_read_at_eighty_columns() -> None:
    labs, shown = find_labs(), io.StringIO()
    wide = {
        "a_check": MarginRow("a_check", "1.1", 0.123, 0.456, 12345.6, "one", 12345.6, numeric=True)
    }
    proofs = [Proof(lab, margins=wide, misconceptions=118, grades=1234) for lab in labs]
    show_proofs(proofs, Console(file=shown, width=80), margins=False)
    lines = shown.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in shown.getvalue()
    assert all(any(lab.short in line for line in lines) for lab in labs)


def test_what_goes_under_anothers_name_is_listed_with_what_is_said_of_it() -> None:
    labs, shown = find_labs(), io.StringIO()
    confusion = Confusion("1.1", "two", "one", "It is one.", ("a_check",), everywhere=True)
    proof = Proof(labs[0], confusions=[confusion])
    show_proofs([proof], Console(file=shown, width=80), margins=False)
    told = shown.getvalue()
    assert "1.1 two" in confusion.sentence
    assert "It is one." in confusion.sentence
    assert "Under another's name; is what it says true of them?" in told
    assert f"{labs[0].short}: {confusion.sentence}" in told
