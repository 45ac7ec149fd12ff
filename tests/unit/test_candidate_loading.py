"""A submission's lines are those of the parser: a form feed or U+2028 ends none."""

from __future__ import annotations

import pytest

from infralens.candidate.loading import describe, load


@pytest.mark.parametrize("odd", ["\x0c", "# \u2028", "# \x85", "# \x1c", "'\u2029'", "pass\r"])
def test_the_line_that_raised_is_shown(odd: str) -> None:
    text = f"{odd}\nx = 1\nraise ValueError(x)\n"
    with pytest.raises(ValueError, match="1") as caught:
        load(text, "/odd/mine.py")
    (frame,) = describe(caught.value, "/odd/mine.py").frames
    assert frame[2] == "raise ValueError(x)"
