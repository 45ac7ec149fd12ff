"""A released notebook in JupyterLab, in a real browser: a check is run and its verdict seen."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from infralens.course.notebooks import source_notebook
from infralens.labs import find_lab, find_labs
from infralens.stubs import BEGIN, END

LAB = find_lab("lab-03", find_labs())
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
SECONDS = 120.0
QUIET = {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}}

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason="needs Chromium"),
]


@pytest.fixture
def lab_server(tmp_path: Path) -> Iterator[str]:
    """The address of a JupyterLab on two todos of a notebook: one is right, one wrong."""
    notebook = source_notebook(LAB, {todo.id: todo.points for todo in LAB.todos})
    wanted = ("imports", "answer-3-6", "check-3-6", "answer-3-7", "check-3-7")
    notebook.cells = [cell for cell in notebook.cells if cell.id in wanted]
    for cell in notebook.cells:
        lines = [line for line in cell.source.split("\n") if line.strip() not in (BEGIN, END)]
        cell.source = "\n".join(lines).replace("model_output.float()) / 2", "model_output.float())")
    work = tmp_path / "work"
    work.mkdir()
    nbformat.write(notebook, work / "scheduler.ipynb")
    settings = tmp_path / "overrides"
    settings.mkdir()
    (settings / "overrides.json").write_text(json.dumps(QUIET))
    own = {f"JUPYTER_{kind}_DIR": str(tmp_path / kind) for kind in ("CONFIG", "DATA", "RUNTIME")}
    log = tmp_path / "log"
    with log.open("wb") as out:
        server = subprocess.Popen(
            [
                *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
                *("--ServerApp.port=0", "--IdentityProvider.token=t"),
                *(f"--ServerApp.root_dir={work}", f"--LabApp.app_settings_dir={settings}"),
            ],
            env={**os.environ, **own, "IPYTHONDIR": str(tmp_path / "ipython")},
            stdout=out,
            stderr=out,
        )
    try:
        yield _address(server, log)
    finally:
        server.terminate()  # it ends its kernels, and they their graders
        server.wait(60)


def _address(server: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        found = re.search(r"http://(?:localhost|127\.0\.0\.1):(\d+)/lab", log.read_text("utf-8"))
        if found:
            return f"http://127.0.0.1:{found[1]}/lab/tree/scheduler.ipynb?token=t"
        time.sleep(0.2)
    raise AssertionError(log.read_text("utf-8")[-2000:])


def test_a_check_cell_shows_its_verdict_in_jupyterlab(lab_server: str, tmp_path: Path) -> None:
    from playwright.sync_api import expect, sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1300, "height": 950})
        page.goto(lab_server)
        page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=SECONDS * 1000)
        page.get_by_text("(ipykernel) | Idle").wait_for(timeout=SECONDS * 1000)
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        outputs = page.locator(".jp-OutputArea-output pre")
        passed = outputs.filter(has_text="Counting denoiser calls")
        failed = outputs.filter(has_text="A second-order step")
        expect(passed.first).to_contain_text("1 of 1 points", timeout=SECONDS * 1000)
        expect(failed.first).to_contain_text("0 of 2 points", timeout=SECONDS * 1000)
        expect(failed.first).to_contain_text("%infralens hint 3.7")
        failed.first.scroll_into_view_if_needed()
        page.screenshot(path=tmp_path / "lab.png")
        browser.close()
