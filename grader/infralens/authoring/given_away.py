"""Lines of a lab's answers that stand where everybody reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from infralens.labs import Lab
from infralens.stubs import answer_lines

LONG_ENOUGH = 25  # shorter lines (`return total`) say nothing
SAYS_LITTLE = r'.*:|"\w+",?|\w+=\w+,'  # `for t in timesteps:`, a listed name, a passed argument


def telling_lines(solution: str) -> set[str]:
    """Those lines of the answers that give something away."""
    lines = set(answer_lines(solution))
    return {
        line for line in lines if len(line) >= LONG_ENOUGH and not re.fullmatch(SAYS_LITTLE, line)
    }


def given_away(lab: Lab) -> Iterator[str]:
    """Every such line of this lab that stands in a page, be it of the handbook or of a lab."""
    assert lab.solution is not None
    telling = telling_lines(lab.solution.read_text(encoding="utf-8"))
    for path in sorted(lab.place.exercises.rglob("*.md")):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.strip() in telling:
                where = path.relative_to(lab.place.exercises)
                yield f"a line of an answer stands in {where}: {line.strip()}"
