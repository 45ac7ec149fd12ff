"""CSV that is only text: no cell of it is a formula, and none steers a terminal."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from infralens.show.harmless import one_line

FORMULA = ("=", "+", "-", "@", "|", "%", "＝", "＋", "－", "＠")  # how spreadsheets begin one


def csv_text(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """The rows as CSV. A text that a spreadsheet would take for a formula begins with a '."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    for row in rows:
        writer.writerow([_cell(value) for value in row])
    return text.getvalue()


def _cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    plain = one_line(value)
    return f"'{plain}" if plain.startswith(FORMULA) else plain
