"""Released notebooks in a real browser: checked by a learner, marked by hand by an instructor.

One Jupyter server over one course serves JupyterLab, Notebook 7 and formgrader.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.apps.api import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from infralens.course.nbgrader import Wanted, release_labs
from infralens.course.notebooks import source_notebook
from infralens.labs import find_lab, find_labs
from infralens.stubs import BEGIN, END

LABS = find_labs()
NOISE, SCHEDULER = find_lab("lab-01", LABS), find_lab("lab-03", LABS)
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
SECONDS = 120.0
MILLISECONDS = SECONDS * 1000
QUIET = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}}
SENTENCE = "Every step shrinks the picture and adds noise, so that one draw gives any level."

pytestmark = [
    pytest.mark.browser,
    pytest.mark.minutes,
    pytest.mark.xdist_group("jupyter"),
    pytest.mark.skipif(BROWSER is None, reason="needs Chromium"),
]


@dataclass(frozen=True)
class Served:
    """A server, and the course that it lies over."""

    address: str
    course: Path

    def at(self, place: str) -> str:
        return f"{self.address}/{place}?token=t"


def of_two_todos() -> NotebookNode:
    """A notebook with the answers to two todos: one is right, one wrong."""
    notebook = source_notebook(SCHEDULER, {todo.id: todo.points for todo in SCHEDULER.todos})
    wanted = ("imports", "answer-3-6", "check-3-6", "answer-3-7", "check-3-7")
    notebook.cells = [cell for cell in notebook.cells if cell.id in wanted]
    for cell in notebook.cells:
        lines = [line for line in cell.source.split("\n") if line.strip() not in (BEGIN, END)]
        cell.source = "\n".join(lines).replace("model_output.float()) / 2", "model_output.float())")
    return notebook


def graded_course(course: Path) -> None:
    """A course of one lab, and one submission that answers only the question at its end."""
    for _ in release_labs(course, [NOISE], Wanted(explain=5)):
        pass
    released = nbformat.read(course / "release/lab-01/forward_noise.ipynb", 4)
    for cell in released.cells:
        if cell.metadata.get("nbgrader", {}).get("grade_id") == "explain":
            cell.source = SENTENCE
    handed_in = course / "submitted/ada/lab-01/forward_noise.ipynb"
    handed_in.parent.mkdir(parents=True)
    nbformat.write(released, handed_in)
    done = api(course).autograde("lab-01", "ada")
    assert done["success"], done["log"]


def api(course: Path) -> NbGraderAPI:
    """nbgrader as formgrader has it, in this process."""
    config: Config = PyFileConfigLoader("nbgrader_config.py", path=str(course)).load_config()
    config.CourseDirectory.root = str(course)
    config.Examine.isolation = "process"
    return NbGraderAPI(CourseDirectory(config=config), config=config)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("jupyter")
    course, settings = folder / "course", folder / "overrides"
    graded_course(course)
    for name in ("lab", "notebook"):
        nbformat.write(of_two_todos(), course / f"{name}.ipynb")
    settings.mkdir()
    (settings / "overrides.json").write_text(json.dumps(QUIET))
    own = {f"JUPYTER_{kind}_DIR": str(folder / kind) for kind in ("CONFIG", "DATA", "RUNTIME")}
    log = folder / "log"
    with log.open("wb") as out:
        server = subprocess.Popen(
            [
                *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
                *("--ServerApp.port=0", "--IdentityProvider.token=t"),
                *(f"--ServerApp.root_dir={course}", f"--LabApp.app_settings_dir={settings}"),
            ],
            env={**os.environ, **own, "IPYTHONDIR": str(folder / "ipython")},
            cwd=course,
            stdout=out,
            stderr=out,
        )
    try:
        yield Served(_address(server, log), course)
    finally:
        server.terminate()  # it ends its kernels, and they their graders
        server.wait(60)


def _address(server: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        found = re.search(r"http://(?:localhost|127\.0\.0\.1):(\d+)/lab", log.read_text("utf-8"))
        if found:
            return f"http://127.0.0.1:{found[1]}"
        time.sleep(0.2)
    raise AssertionError(log.read_text("utf-8")[-2000:])


@pytest.fixture
def page() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1300, "height": 950})
        page.set_default_timeout(MILLISECONDS)
        yield page
        browser.close()


def run_all(page: Any) -> None:
    """Run every cell; again while a session not ready passes it over or asks for a kernel."""
    from playwright.sync_api import TimeoutError

    prompts = page.locator(".jp-InputPrompt")
    running, run = (prompts.filter(has_text=re.compile(text)) for text in (r"\[\*\]", r"\[\d+\]"))
    asked = page.locator(".jp-Dialog .jp-mod-accept")
    deadline = time.monotonic() + SECONDS
    while not run.count() and time.monotonic() < deadline:
        with contextlib.suppress(TimeoutError):
            if asked.count():
                asked.first.click(timeout=5000)
            elif not running.count():
                page.get_by_role("menuitem", name="Run", exact=True).click(timeout=5000)
                page.get_by_role("menuitem", name="Run All Cells", exact=True).click(timeout=5000)
        page.wait_for_timeout(1000)


@pytest.mark.parametrize(
    "place",
    ["lab/tree/lab.ipynb", "notebooks/notebook.ipynb"],
    ids=["JupyterLab", "Notebook 7"],
)
def test_a_check_cell_shows_its_verdict(
    served: Served, page: Any, place: str, tmp_path: Path
) -> None:
    from playwright.sync_api import expect

    page.goto(served.at(place))
    page.wait_for_selector(".jp-Notebook .jp-CodeCell")
    page.wait_for_selector('.jp-Notebook-ExecutionIndicator[data-status="idle"]', state="attached")
    run_all(page)
    outputs = page.locator(".jp-OutputArea-output pre")
    passed = outputs.filter(has_text="Counting denoiser calls")
    failed = outputs.filter(has_text="A second-order step")
    expect(passed.first).to_contain_text("1 of 1 points", timeout=MILLISECONDS)
    expect(failed.first).to_contain_text("0 of 2 points", timeout=MILLISECONDS)
    expect(failed.first).to_contain_text("%infralens hint 3.7")
    failed.first.scroll_into_view_if_needed()
    page.screenshot(path=tmp_path / "notebook.png")


def test_a_grade_by_hand_is_entered_in_formgrader_and_kept(
    served: Served, page: Any, tmp_path: Path
) -> None:
    def known() -> tuple[str, float | None, float]:
        with Gradebook(f"sqlite:///{served.course / 'gradebook.db'}") as gradebook:
            found = gradebook.find_submission_notebook("forward_noise", "lab-01", "ada")
            (grade,) = (grade for grade in found.grades if grade.name == "explain")
            return found.id, grade.manual_score, found.score

    submission, by_hand, total = known()
    assert (by_hand, total) == (None, 0)
    page.set_extra_http_headers({"Authorization": "token t"})  # its own requests carry no token
    page.goto(served.at(f"formgrader/submissions/{submission}/"), wait_until="networkidle")
    marked = page.locator(".nbgrader_cell", has_text=SENTENCE)
    marked.scroll_into_view_if_needed()
    score = marked.locator("input.score")
    score.fill("4")
    score.press("Tab")
    deadline = time.monotonic() + SECONDS
    while known()[1] is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert known()[1:] == (4, 4)
    page.screenshot(path=tmp_path / "formgrader.png")
    page.goto(served.at("formgrader/gradebook/lab-01/forward_noise"))
    page.get_by_text("Submission #1").first.wait_for()
    page.screenshot(path=tmp_path / "gradebook.png")
    done = api(served.course).generate_feedback("lab-01", "ada")
    assert done["success"], done["log"]
    page.goto((served.course / "feedback/ada/lab-01/forward_noise.html").as_uri())
    page.get_by_text("(Score: 4.0 / 21.0)").first.wait_for()
    page.get_by_text("not started").first.scroll_into_view_if_needed()
    page.screenshot(path=tmp_path / "feedback.png")
