"""A formula in Unicode, taken apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁽⁾ʲᵀ", "0123456789()jT", strict=True))
LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉ᵢⱼ", "0123456789ij", strict=True))
LETTER = "A-Za-z\u0391-\u03c9\u1fb1∇∂∞"
TOKEN = re.compile(
    rf"""(?P<space>\s+)
    |(?P<words>"[^"]*")
    |(?P<code>v_prediction|s_churn|[A-Za-z]\w*(?:\.[A-Za-z]\w*)+|\.[a-z]\w*
        |[A-Za-z]{{2,}}(?:_\w+)*_[A-Za-z]\w+(?:_\w+)*)
    |(?P<number>\d+(?:,\d{{3}})*(?:\.\d+)?(?:e-?\d+)?|\.\d+|[½¼])
    |(?P<large>[Σ∫])
    |(?P<name>[{LETTER}][\u0300-\u036f]?\d+(?![{LETTER}])|[{LETTER}][\u0300-\u036f]?[{LETTER}]*)
    |(?P<raised>[{"".join(RAISED)}]+)
    |(?P<lowered>[{"".join(LOWERED)}]+)
    |(?P<bound>[_^])
    |(?P<prime>['′]+)
    |(?P<root>√)
    |(?P<open>[(\[])
    |(?P<close>[)\]])
    |(?P<norm>‖)
    |(?P<sign>···|//|\?|[-=+−·/×*≤≥<>≈~→⇔,:;.…|∈%])""",
    re.VERBOSE,
)
PRODUCT = frozenset("·×*")


class FormulaError(ValueError):
    """A text that is no formula."""


@dataclass(frozen=True)
class Token:
    """A piece of a formula; `kind` is a group of TOKEN."""

    kind: str
    text: str
    spaced: bool  # white space stands before it


def tokens_of(formula: str) -> Iterator[Token]:
    """The pieces of a formula. FormulaError for a sign that none has."""
    at, spaced = 0, False
    while at < len(formula):
        match = TOKEN.match(formula, at)
        if match is None or match.lastgroup is None:
            raise FormulaError(f"{formula!r} has {formula[at]!r}")
        at = match.end()
        if match.lastgroup != "space":
            yield Token(match.lastgroup, match[0], spaced)
        spaced = match.lastgroup == "space"
