"""The HTML report can be read in light and dark, and says how to go on."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from infralens.report import CheckResult, Curve, Detail, Region
from infralens.show.heat import DIFFERENCES, NO_NUMBER, VALUES, heat_maps
from infralens.show.html import to_html

WRONG = CheckResult("a", "A.", "failed", detail=Detail(reads="handbook/scheduler.md#karras"))
HUGE = Region(
    shape=(4, 9),
    axes=(0, 1),
    start=(1, 5),
    worst=(0, 1),
    expected=("0 -1e+308", "2 2"),
    yours=("nan 1e+308", "-inf 2"),
    difference=("nan inf", "-inf 0"),
)
WHITE, CANVAS = (255, 255, 255), (18, 18, 18)  # what browsers lay under a page, light and dark
CODE = (136, 136, 136), 0x11 / 255  # the colour of code's ground, and how much of it there is


def _light(colour: tuple[float, ...]) -> float:
    parts = [c / 255 for c in colour]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    high, low = sorted((_light(one), _light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("ground", [WHITE, CANVAS], ids=["light", "dark"])
def test_every_colour_can_be_read(report_of: Any, ground: tuple[int, ...]) -> None:
    page = to_html(report_of(("3.3", 4, "failed", [WRONG])))
    roots = re.findall(r":root \{([^}]*)\}", page)
    assert len(roots) == 2
    named = re.findall(r"--\w+: #([0-9a-f]{6});", roots[ground is CANVAS])
    assert len(named) == 3
    grey, share = CODE
    code = tuple(g * (1 - share) + c * share for g, c in zip(ground, grey, strict=True))
    for text in named:
        colour = tuple(bytes.fromhex(text))
        assert min(_contrast(colour, under) for under in (ground, code)) >= 4.5, text


def test_a_failure_says_what_to_read_and_the_hint(report_of: Any) -> None:
    page = to_html(report_of(("4.1", 4, "failed", [WRONG]), lab="diffsynth/lab-04"))
    assert "<dd>infralens read handbook/scheduler.md#karras</dd>" in page
    assert "<dd>infralens hint diffsynth/4.1</dd>" in page


def test_commands_begin_as_the_one_that_was_given(report_of: Any) -> None:
    page = to_html(report_of(("3.3", 4, "failed", [WRONG])), "infralens --labs '/a <b>'")
    assert "<dd>infralens --labs &#39;/a &lt;b&gt;&#39; hint 3.3</dd>" in page
    assert "infralens hint" not in page


def test_a_todo_says_which_other_one_it_follows_from(report_of: Any) -> None:
    report = report_of(("3.1", 2, "failed", [WRONG]), ("3.2", 2, "failed", [WRONG]))
    leaning = replace(report.todos[1], uses=(("timesteps", "3.1"),))
    page = to_html(replace(report, todos=(report.todos[0], leaning)))
    assert page.count("calls your 3.1, which is wrong") == 1
    assert "which is wrong" not in to_html(report)


def test_expected_and_yours_have_one_scale_and_the_difference_its_own() -> None:
    region = Region((2,), (0,), (0,), (0, 1), ("0 1",), ("0 4",), ("0 3",))
    expected, yours, difference = heat_maps(region).maps
    assert (expected.low, expected.high) == (yours.low, yours.high) == ("0", "4")
    assert (difference.low, difference.high) == ("\N{MINUS SIGN}3", "3")
    assert [cell.fill for cell in yours.cells] == [VALUES[0], VALUES[-1]]
    assert expected.cells[1].fill == VALUES[2]
    assert [cell.fill for cell in difference.cells] == [DIFFERENCES[3], DIFFERENCES[-1]]


def test_a_heat_map_tells_its_numbers_without_colours(report_of: Any) -> None:
    check = replace(WRONG, detail=Detail(region=HUGE))
    page = to_html(report_of(("3.3", 4, "failed", [check])))
    assert page.count('<svg role="img"') == 3
    assert 'aria-label="yours: 2 by 2 numbers from 2 to 1e+308, 2 not finite; in the frame' in page
    assert "<title>[1, 5] nan</title>" in page
    assert "[1:3, 5:7] of shape (4, 9)" in page
    assert "a cross is no finite number" in page
    assert page.count('class="cross"') == page.count(f'fill="{NO_NUMBER}"') == 5
    assert "<svg" not in to_html(report_of(("3.3", 4, "failed", [WRONG])))


def test_the_first_divergence_is_marked_and_told(report_of: Any) -> None:
    check = replace(WRONG, detail=Detail(curve=Curve("`x` <b>", "call", 0, "0 0.5 20 inf")))
    page = to_html(report_of(("3.3", 4, "failed", [check])))
    told = "`x` &lt;b&gt;: the first error beyond rounding is at call 2: 20 times what rounding"
    assert f'aria-label="{told}' in page
    assert page.count("<circle") == 4
    assert page.count('class="off"') == 2
    assert page.count('class="first"') == 1
