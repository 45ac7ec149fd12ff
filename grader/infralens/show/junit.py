"""A Report as JUnit XML: a test case a check, for the systems that read it."""

from __future__ import annotations

from xml.etree import ElementTree

from infralens.report import CheckResult, Report
from infralens.show.harmless import harmless
from infralens.show.terminal import follows_from

KINDS = {"failed": "failure", "error": "error", "timeout": "error", "not_run": "skipped"}


def to_junit(report: Report) -> str:
    """One `testsuite` with a `testcase` a check. Text from a submission is escaped."""
    checks = [(todo, check) for todo in report.todos for check in todo.checks]
    counts = {
        kind: sum(KINDS.get(check.status) == kind for _, check in checks)
        for kind in ("failure", "error", "skipped")
    }
    suite = ElementTree.Element(
        "testsuite",
        name=report.lab,
        tests=str(len(checks)),
        failures=str(counts["failure"]),
        errors=str(counts["error"] + (report.grader_error is not None)),
        skipped=str(counts["skipped"]),
        time=f"{report.seconds:.3f}",
    )
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in (("seed", report.seed), ("score", report.score), ("max", report.max_score)):
        ElementTree.SubElement(properties, "property", name=name, value=str(value))
    for todo, check in checks:
        case = ElementTree.SubElement(
            suite, "testcase", classname=f"{report.lab}.{todo.id}", name=check.name
        )
        _outcome(case, check, follows_from(todo, report))
    if report.grader_error is not None:
        ElementTree.SubElement(suite, "system-err").text = harmless(report.grader_error)
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suite, "unicode")


def _outcome(case: ElementTree.Element, check: CheckResult, follows: str) -> None:
    kind = KINDS.get(check.status)
    if kind is None:
        return
    message = harmless(check.message)
    node = ElementTree.SubElement(case, kind, message=message[:1000])
    detail = check.detail
    said = [f"this todo {follows}"] if follows else []
    if detail is not None and detail.explanation:
        said.insert(0, f"{check.misconception}: {detail.explanation}")
    node.text = "\n".join(said) or None
    if detail is not None and detail.output:
        ElementTree.SubElement(case, "system-out").text = harmless(detail.output)
