"""The HTML report in a real browser: it shows what happened; a hostile submission does nothing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from infralens.report import (
    CheckResult,
    Curve,
    Detail,
    Environment,
    Frame,
    Note,
    Region,
    Report,
    TodoResult,
)
from infralens.show.html import to_html

SCRIPT = "document.title='owned'"
HOSTILE = f"<script>{SCRIPT}</script><img src=x onerror={SCRIPT!r}>\x1b[2J\u202e"
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), "chromium")
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def report(text: str) -> Report:
    detail = Detail(
        call=text,
        expected="[1.0, 2.0]",
        yours=text,
        where=text,
        region=Region((1, 2), (1,), (0, 0), (0, 1), ("1 2",), ("1 inf",), ("0 inf",)),
        curve=Curve(text, "call", 0, "0 0.5 20 inf"),
        explanation="Divide by √(σ² + 1).",
        frames=(Frame(3, text, text),),
        output=text * 3,
    )
    check = CheckResult(
        "test_x", "the input is scaled", "failed", text, "sigma-not-root", detail=detail
    )
    todos = (
        TodoResult("3.1", "Timesteps", 2, 2, "passed", ()),
        TodoResult("3.3", "Euler's method", 4, 0, "failed", (check,)),
    )
    environment = Environment("cpu", ("float32",), "3.11", "2.13", "0.42", "sandbox")
    notes = (Note(7, text),)
    return Report(
        "diffusers/lab-03",
        "Scheduler Reading",
        text,
        2,
        6,
        False,
        3,
        1.5,
        None,
        environment,
        todos,
        notes,
    )


def opened(page: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    path = folder / "report.html"
    path.write_text(page, encoding="utf-8")
    profile = f"--user-data-dir={folder / 'profile'}"
    return subprocess.run(
        [BROWSER, *QUIET, profile, *options, path.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )


@pytest.mark.browser
def test_a_hostile_submission_does_nothing_in_a_browser(tmp_path: Path) -> None:
    dom = opened(to_html(report(HOSTILE)), tmp_path, "--dump-dom").stdout
    assert "<title>diffusers/lab-03 · 2 of 6</title>" in dom
    assert dom.count("<svg") == dom.count('aria-label="') == 4
    assert "<title>[0, 1] inf</title>" in dom
    assert "<script" not in dom
    assert "<img" not in dom
    assert "\x1b" not in dom


@pytest.mark.browser
def test_the_page_can_be_seen(tmp_path: Path) -> None:
    picture = tmp_path / "report.png"
    opened(
        to_html(report("scale_model_input(…)")),
        tmp_path,
        f"--screenshot={picture}",
        "--window-size=900,1100",
    )
    data = picture.read_bytes()
    assert data.startswith(b"\x89PNG")
    assert len(data) > 20_000  # a blank page takes 5 kB


def test_every_text_of_a_report_is_on_the_page() -> None:
    page = to_html(report("what-the-submission-said"))
    for text in ("Scheduler Reading", "2 of 6", "3.3", "the input is scaled", "sigma-not-root"):
        assert text in page
    assert page.count("what-the-submission-said") >= 8
    assert "Content-Security-Policy" in page
