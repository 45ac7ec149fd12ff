"""The proofs of labs as a table."""

from __future__ import annotations

import io

from rich.console import Console

from infralens.authoring.proofs import MarginRow, Proof
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
