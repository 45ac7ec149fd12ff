"""Reports: to JSON and back, and JSON that any strict reader takes."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace
from typing import Any

import pytest

from infralens.documents import judge_of
from infralens.labs import PACKAGE
from infralens.report import (
    CheckResult,
    Curve,
    Detail,
    Environment,
    Frame,
    Margin,
    Note,
    Region,
    Report,
    TodoResult,
)

FULL = CheckResult(
    name="test_step",
    title="A step.",
    status="failed",
    message="the result is off",
    misconception="sigma-not-root",
    max_abs_error=0.5,
    tolerance=1e-6,
    margins=(Margin("float32", 0.5, 1e-6, 3.0), Margin("float16", 0.1, 1e-3, 3.0)),
    guards="order",
    reference=("library", "property"),
    detail=Detail(
        call="step(x)",
        case="test_step[leading]",
        call_index=2,
        expected="[1.0]",
        yours="[2.0]",
        where="at [0]",
        region=Region((3, 2), (0, 1), (0, 0), (0, 0), ("1 2",), ("nan 2",), ("nan 0",)),
        curve=Curve("`sample`", "call", 0, "0 0.5 inf 1e+04"),
        explanation="Divide.",
        reads="handbook/scheduler.md",
        frames=(Frame(3, "step", "return x"),),
        output="hello",
    ),
)


def strictly(text: str) -> Any:
    def refuse(name: str) -> Any:
        raise AssertionError(f"{name} in JSON")

    text.encode("utf-8")
    return json.loads(text, parse_constant=refuse)


def test_a_report_comes_back_from_json_as_it_was(report_of: Any) -> None:
    report = report_of(
        ("3.1", 2, "passed", [CheckResult("a", "A", "passed")]),
        ("3.2", 3, "failed", [FULL]),
        notes=(Note(3, "imports ctypes"),),
    )
    assert Report.from_json(report.to_json()) == report


def test_the_json_has_the_fields_that_readers_are_promised(report_of: Any) -> None:
    data = strictly(report_of(("3.1", 2, "failed", [FULL])).to_json())
    assert data["schema"] == 1
    assert set(data) >= {"lab", "title", "submission", "score", "max_score", "passed", "seed"}
    assert set(data["environment"]) == {
        "device",
        "dtype",
        "python",
        "torch",
        "diffusers",
        "isolation",
    }
    check = data["todos"][0]["checks"][0]
    assert check["misconception"] == "sigma-not-root"
    assert check["max_abs_error"] == 0.5


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_lacks_become_null(report_of: Any, number: float) -> None:
    check = CheckResult("a", "A", "failed", max_abs_error=number)
    data = strictly(report_of(("3.1", 2, "failed", [check])).to_json())
    assert data["todos"][0]["checks"][0]["max_abs_error"] is None


def test_an_endless_error_is_still_endless_after_the_journey(report_of: Any) -> None:
    margin = Margin("float32", math.inf, 1e-6, 1.0)
    report = report_of(("3.1", 2, "failed", [CheckResult("a", "A", "failed", margins=(margin,))]))
    back = Report.from_json(report.to_json()).todos[0].checks[0].margins[0]
    assert back.ratio == math.inf


def test_hostile_text_leaves_strict_json(report_of: Any, hostile_text: str) -> None:
    detail = Detail(output=hostile_text, yours=hostile_text, frames=(Frame(1, "f", hostile_text),))
    check = CheckResult("a", "A", "failed", message=hostile_text, detail=detail)
    text = report_of(("3.1", 2, "failed", [check]), fault=hostile_text).to_json()
    assert "\x1b" not in text
    assert strictly(text)["todos"][0]["checks"][0]["message"].endswith("x" * 100)


def test_a_lone_surrogate_does_not_reach_the_json(report_of: Any) -> None:
    check = CheckResult("a", "A", "failed", message="\ud800")
    assert "\\ud800" not in report_of(("3.1", 2, "failed", [check])).to_json()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", '"x"', "{}", "null", '{"todos": []}', '{"todos": [1]}']
)
def test_something_else_is_no_report(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Report.from_json(text)


def test_a_report_with_an_unknown_field_is_refused(report_of: Any) -> None:
    data = json.loads(report_of().to_json())
    with pytest.raises(ValueError, match="surprise"):
        Report.from_json(json.dumps({**data, "surprise": 1}))


@pytest.mark.parametrize("rows", [["1 2"] * 17, ["<b> 2"], [" ".join("1" * 200)]])
def test_a_report_with_more_than_a_small_region_is_refused(report_of: Any, rows: list[str]) -> None:
    data = json.loads(report_of(("3.1", 2, "failed", [FULL])).to_json())
    data["todos"][0]["checks"][0]["detail"]["region"]["yours"] = rows
    with pytest.raises(ValueError, match="region"):
        Report.from_json(json.dumps(data))
    with pytest.raises(ValueError, match="detail"):
        judge_of(PACKAGE / "report.schema.json")(data)


def test_a_check_is_not_run_until_somebody_says_otherwise() -> None:
    assert CheckResult("a", "A").status == "not_run"


@pytest.mark.parametrize(
    ("error", "tolerance", "ratio"), [(1.0, 4.0, 0.25), (0.0, 0.0, 0.0), (1e-9, 0.0, math.inf)]
)
def test_the_ratio_is_the_error_in_tolerances(error: float, tolerance: float, ratio: float) -> None:
    assert Margin("float32", error, tolerance, 1.0).ratio == ratio


def test_the_schema_fits_every_report_and_nothing_else(report_of: Any, hostile_text: str) -> None:
    judge = judge_of(PACKAGE / "report.schema.json")
    endless = replace(
        FULL, max_abs_error=math.inf, margins=(Margin("float32", math.inf, 1.0, 2.0),)
    )
    unknown = CheckResult("a", hostile_text, "timeout", hostile_text)
    for report in (
        report_of(("3.1", 2, "failed", [FULL]), ("3.2", 1, "error", [endless, unknown])),
        report_of(fault=hostile_text, notes=(Note(3, "imports ctypes"),)),
    ):
        judge(json.loads(report.to_json()))
    data = json.loads(report_of(("3.1", 2, "failed", [FULL])).to_json())
    for place, name, value in (
        (data, "grade", 1),
        (data["todos"][0], "status", "paid"),
        (data["todos"][0]["checks"][0], "tolerance", "1e-6"),
    ):
        before = dict(place)
        place[name] = value
        with pytest.raises(ValueError, match=name):
            judge(data)
        place.clear()
        place.update(before)
    judge(data)


def test_the_schema_names_every_field_of_a_report() -> None:
    schema = json.loads((PACKAGE / "report.schema.json").read_text(encoding="utf-8"))
    parts = schema["definitions"]
    for kind, described in (
        (Report, schema),
        (Environment, schema["properties"]["environment"]),
        (Note, schema["properties"]["notes"]["items"]),
        (TodoResult, parts["todo"]),
        (CheckResult, parts["check"]),
        (Margin, parts["check"]["properties"]["margins"]["items"]),
        (Detail, parts["detail"]),
        (Region, parts["region"]),
        (Curve, parts["curve"]),
        (Frame, parts["detail"]["properties"]["frames"]["items"]),
    ):
        names = {field.name for field in fields(kind)}
        assert names == set(described["required"]) == set(described["properties"]), kind
