"""A report as JUnit XML: a test case a check, valid whatever a submission says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

from infralens.report import CheckResult, CheckStatus, Detail
from infralens.show.junit import to_junit

STATUSES: tuple[CheckStatus, ...] = ("passed", "failed", "error", "timeout", "not_run")


def test_every_check_is_a_case_and_the_counts_agree(report_of: Any) -> None:
    checks = [CheckResult(f"test_{status}", "T.", status) for status in STATUSES]
    root = ElementTree.fromstring(to_junit(report_of(("3.1", 2, "failed", checks))))
    assert root.tag == "testsuite"
    counts = [root.get(name) for name in ("tests", "failures", "errors", "skipped")]
    assert counts == ["5", "1", "2", "1"]
    inside = {case.get("name"): [child.tag for child in case] for case in root.iter("testcase")}
    assert inside == {
        "test_passed": [],
        "test_failed": ["failure"],
        "test_error": ["error"],
        "test_timeout": ["error"],
        "test_not_run": ["skipped"],
    }
    assert {case.get("classname") for case in root.iter("testcase")} == {"diffusers/lab-03.3.1"}


def test_seed_and_points_are_properties(report_of: Any) -> None:
    root = ElementTree.fromstring(to_junit(report_of(("3.1", 2, "passed", ()))))
    found = {node.get("name"): node.get("value") for node in root.iter("property")}
    assert found == {"seed": "7", "score": "2", "max": "2"}


def test_a_misconception_and_the_output_are_told(report_of: Any) -> None:
    detail = Detail(explanation="Divide by √(σ² + 1).", output="hello")
    check = CheckResult("a", "A.", "failed", "off", misconception="sigma-not-root", detail=detail)
    root = ElementTree.fromstring(to_junit(report_of(("3.1", 2, "failed", [check]))))
    failure = root.find(".//failure")
    assert failure is not None
    assert failure.get("message") == "off"
    assert failure.text == "sigma-not-root: Divide by √(σ² + 1)."
    assert root.findtext(".//system-out") == "hello"


def test_a_todo_says_which_other_one_it_follows_from(report_of: Any) -> None:
    detail = Detail(explanation="Divide.")
    wrong = CheckResult("a", "A.", "failed", "off", misconception="undivided", detail=detail)
    plain = CheckResult("b", "B.", "failed", "off")
    report = report_of(("3.1", 2, "failed", [wrong]), ("3.2", 2, "failed", [wrong, plain]))
    leaning = replace(report.todos[1], uses=(("timesteps", "3.1"),))
    root = ElementTree.fromstring(to_junit(replace(report, todos=(report.todos[0], leaning))))
    told = [failure.text for failure in root.iter("failure")]
    follows = "this todo calls your 3.1, which is wrong"
    assert told == ["undivided: Divide.", f"undivided: Divide.\n{follows}", follows]


def test_a_grader_that_failed_is_an_error_of_the_suite(report_of: Any) -> None:
    root = ElementTree.fromstring(to_junit(report_of(fault="no <diffusers>")))
    assert root.get("errors") == "1"
    assert root.findtext("system-err") == "no <diffusers>"


def test_hostile_text_leaves_valid_xml(report_of: Any, hostile_text: str) -> None:
    detail = Detail(output=hostile_text)
    check = CheckResult("a", "A.", "failed", message=hostile_text, detail=detail)
    text = to_junit(report_of(("3.1", 2, "failed", [check]), fault=hostile_text))
    root = ElementTree.fromstring(text.encode("utf-8"))
    failure = root.find(".//failure")
    assert failure is not None
    message = failure.get("message", "")
    assert "\\x1b[2J" in message
    assert "<script>" in message
    assert len(message) <= 1000
    assert not set("\x00\x1b\u202e\ud800") & set(text)


def test_every_character_there_is_leaves_valid_xml(report_of: Any) -> None:
    every = "".join(map(chr, range(0x3000))) + "\ud800\udfff\ufdd0\ufffe\uffff\U0010ffff"
    check = CheckResult("a", "A.", "error", detail=Detail(output=every))
    text = to_junit(report_of(("3.1", 2, "error", [check])))
    out = ElementTree.fromstring(text.encode("utf-8")).findtext(".//system-out")
    assert out is not None
    assert "\\ufffe" in out
