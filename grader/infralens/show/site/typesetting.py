"""The formulas of a page set: the blocks that are fenced as such, and those within sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import Any

from infralens.show.site.formulas import mathml
from infralens.show.site.sentences import is_formula, may_be_set, pieces_of

FENCE = "formula"
ENDS = ",;"
FEW = 16  # so few letters stay in one line
CELL = re.compile(r"\S+(?: \S+)*")  # two spaces part what stands beside each other


def block(source: str) -> str:
    """A block of formulas as a table: what stands below each other there does so here."""
    parted = [
        [(cell.start(), cell[0]) for cell in CELL.finditer(line)] for line in source.splitlines()
    ]
    signs = {start for cells in parted for start, text in cells if text.startswith("=")}
    lines = [_joined([part for cell in cells for part in _at(signs, *cell)]) for cells in parted]
    columns = sorted({start for cells in lines for start, _ in cells})
    rows = "".join(f"<tr>{_row(cells, columns)}</tr>" for cells in lines if cells)
    return f'<div class="formulas"><table>{rows}</table></div>\n'


def _at(signs: set[int], start: int, text: str) -> Iterator[tuple[int, str]]:
    """A cell, parted before its sign where those of other lines stand below or above it."""
    found = [at for at in signs if text[at - start - 1 : at - start + 2] == " = " and at > start]
    if not found:
        yield start, text
        return
    yield start, text[: found[0] - start - 1]
    yield found[0], text[found[0] - start :]


def _joined(cells: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """The cells of a line; words at its end are one, so that they push no column aside."""
    while len(cells) > 2 and not any(is_formula(text) for _, text in cells[-2:]):
        (start, text), (_, more) = cells[-2:]
        cells = [*cells[:-2], (start, f"{text}\u2003{more}")]
    return cells


def _row(cells: list[tuple[int, str]], columns: list[int]) -> str:
    told, at = [], 0
    for number, (start, text) in enumerate(cells):
        first = columns.index(start)
        if first > at:
            told.append(f'<td colspan="{first - at}"></td>')
        rest = cells[number + 1 :]
        at = columns.index(rest[0][0]) if rest else len(columns)
        before_sign = bool(rest) and rest[0][1].startswith("=") and may_be_set(text)
        set_alone = before_sign or is_formula(text.rstrip(ENDS))
        wraps = not set_alone and len(text) > FEW
        told.append(
            f'<td colspan="{at - first}" class="{"words" if wraps else "whole"}">'
            f"{_cell(text, set_alone)}</td>"
        )
    return "".join(told)


def _cell(text: str, set_alone: bool) -> str:
    if set_alone:
        formula = text.rstrip(ENDS)
        return mathml(formula, display=True) + text[len(formula) :]
    return "".join(
        piece if is_set else escape(piece) for is_set, piece in pieces_of(text, display=True)
    )


def typeset(app: Any, doctree: Any) -> None:
    """Replace the formulas of a page, as Sphinx hands it over once it is read."""
    from docutils import nodes

    def raw(html: str) -> Any:
        return nodes.raw("", html, format="html")

    for fenced in list(doctree.findall(nodes.literal_block)):
        if fenced.get("language") == FENCE:
            fenced.replace_self(raw(block(fenced.astext())))
    untouched = (nodes.literal, nodes.literal_block, nodes.raw, nodes.title, nodes.reference)
    for text in list(doctree.findall(nodes.Text)):
        if _within(text, untouched):
            continue
        found = list(pieces_of(str(text)))
        if any(is_set for is_set, _ in found):
            made = [raw(piece) if is_set else nodes.Text(piece) for is_set, piece in found]
            text.parent.replace(text, made)


def _within(node: Any, kinds: tuple[type, ...]) -> bool:
    while node is not None:
        if isinstance(node, kinds):
            return True
        node = node.parent
    return False
