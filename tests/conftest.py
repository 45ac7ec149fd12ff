"""What a machine may lack, and what a whole run prints at its end.

Tests that need what is not there skip with one line, or fail where it is required:
INFRALENS_REQUIRE names what must be there: "sandbox", "browser", "site", with commas between.

A run takes the day's share of the slow tests (see share.py), unless it names some tests itself.
"""

from __future__ import annotations

import gc
import hashlib
import os
import re
import secrets
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
# Two workers have two cores: with threads of torch's own, each waits for the other's.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import share
from infralens.examiner.isolation.bubblewrap import unavailable
from infralens.labs import find_labs
from infralens.show.site.building import missing as what_a_site_lacks

REQUIRED = set(filter(None, os.environ.get("INFRALENS_REQUIRE", "").split(",")))
MOST_CHARACTERS = 3000  # of a failure that is told at once; all of it stands at the end
LAB_OF_A_TEST = re.compile(r"\[(\w+/lab-\d+)")
LIGHT = {
    "__init__.py": '__version__ = "0"\nfrom . import utils\n',
    "utils/__init__.py": "from . import logging\n",
    "utils/logging.py": "def set_verbosity_error(): ...\n",
}
"""A diffusers with what an examiner itself asks of it."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def missing(need: str) -> str | None:
    """Why what is needed is not here; None when it is."""
    if need == "sandbox":
        return unavailable()
    if need == "site":
        return what_a_site_lacks()
    return None if any(map(shutil.which, BROWSERS)) else "Chromium is not installed"


def pytest_runtest_setup(item: pytest.Item) -> None:
    for need in ("sandbox", "browser", "site"):
        if item.get_closest_marker(need) is None:
            continue
        reason = missing(need)
        if reason is not None and need in REQUIRED:
            pytest.fail(f"{need} is required here: {reason}", pytrace=False)
        if reason is not None:
            pytest.skip(f"no {need}: {reason}")


class ToldAtOnce:
    """Tells what failed when it fails: a run of an hour may be broken off before its end."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and reporter is not None:
            reporter.write_line(f"\nFAILED {report.nodeid} ({report.when})")
            reporter.write_line(report.longreprtext[-MOST_CHARACTERS:])


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("infralens")
    group.addoption("--share", help="a date, or 'all': which share of the slow tests to run")
    group.addoption("--base-seed", type=int, help="what the seeds of this run are made from")


LEFT = pytest.StashKey[Counter[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LEFT] = Counter()
    if hasattr(config, "workerinput"):  # one of pytest-xdist's workers, which sends its reports
        config.option.share = config.workerinput["share"]
        config.option.base_seed = config.workerinput["base_seed"]
        return
    config.pluginmanager.register(ToldAtOnce(config))
    option = config.option
    if option.share is None:
        named = config.args_source is not pytest.Config.ArgsSource.TESTPATHS or option.keyword
        option.share = share.ALL if named else share.today()
    if option.base_seed is None:
        option.base_seed = secrets.randbits(32)
    try:
        share.Share.named(option.share)
    except ValueError:
        raise pytest.UsageError(f"--share {option.share}: neither a date nor 'all'") from None
    option.loadscopereorder = False  # `in_order` knows better what takes long


def pytest_report_header(config: pytest.Config) -> str:
    return f"--share {config.option.share} --base-seed {config.option.base_seed}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Takes the share, groups it by lab, and puts first what takes longest."""
    kept, left = share.shared_out(items, share.Share.named(config.option.share))
    config.stash[LEFT].update(map(share.kind_left, left))
    if left:
        config.hook.pytest_deselected(items=left)
    items[:] = kept
    share.in_order(items, share.group_of)
    for item in items:
        group = share.group_of(item)
        if group is not None and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(group))


def pytest_collection_finish() -> None:
    """torch and diffusers are here for good: looking through them for garbage again takes long."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def base_seed(request: pytest.FixtureRequest) -> int:
    """This test's own seed in this run: `--base-seed` gives the same again."""
    words = f"{request.config.option.base_seed} {request.path.name} {request.node.name}"
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:4], "big")


@pytest.fixture(scope="session")
def light_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("light")
    folder.chmod(0o755)
    for name, text in LIGHT.items():
        path = folder / "diffusers" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def light_diffusers(light_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Examiners that this test starts find a diffusers of a few lines, in the folder.

    For labs whose references are of torch alone: half of an examiner's start is diffusers.
    """
    monkeypatch.setenv("PYTHONPATH", str(light_folder))
    return light_folder


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    option = node.config.option
    node.workerinput |= {"share": option.share, "base_seed": option.base_seed}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    left = getattr(node, "workeroutput", {}).get("left")
    if left:  # every worker leaves out the same
        node.config.stash[LEFT] = Counter(left)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> Iterator[None]:
    """The last line says what was left out."""
    config = session.config
    if hasattr(config, "workerinput"):  # before pytest-xdist, whose hook sends it
        config.workeroutput["left"] = dict(config.stash[LEFT])
    yield
    if hasattr(config, "workerinput"):
        return
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    wanted, labs = share.Share.named(config.option.share), find_labs()
    everything = config.args_source is pytest.Config.ArgsSource.TESTPATHS and not (
        config.option.keyword or config.option.markexpr or config.option.collectonly
    )
    if wanted.day is None and everything and exitstatus == 0:
        share.record(labs)
    if reporter is not None and (everything or config.stash[LEFT]):
        reporter.write_line(share.said_of(config.stash[LEFT], wanted, labs))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The margins of the labs and the figures of the attacks, as far as they were run.

    Here and not in their folders: with pytest-xdist, what prints does not load those.
    """
    spent = times(terminalreporter)
    if len(spent) > 1:
        terminalreporter.section("where the time went")
        terminalreporter.write_line("\n".join(spent))
    margins = [line for lines in carried(terminalreporter, "margins") for line in lines]
    if margins:
        terminalreporter.section("margins")
        terminalreporter.write_line("\n".join(margins))
    attacks = carried(terminalreporter, "attack")
    if attacks:
        sys.path.insert(0, str(Path(__file__).parent / "attacks"))
        from arena import Figure, table

        terminalreporter.section("attacks")
        terminalreporter.write_line(table([Figure(**attack) for attack in attacks]))


def times(terminalreporter: pytest.TerminalReporter) -> list[str]:
    """The seconds of each folder of tests and of each lab in it, the longest first."""
    seconds: Counter[str] = Counter()
    reports = [r for rs in terminalreporter.stats.values() for r in rs]
    for report in (known for known in reports if isinstance(known, pytest.TestReport)):
        lab = LAB_OF_A_TEST.search(report.nodeid)
        name = f"{Path(report.nodeid.partition('::')[0]).parent.name} {lab[1] if lab else ''}"
        seconds[name] += report.duration
    return [f"{spent:7.0f} s  {name}" for name, spent in seconds.most_common() if spent >= 1]


def carried(terminalreporter: pytest.TerminalReporter, name: str) -> list[Any]:
    """What the tests recorded under this name, with record_property."""
    return [
        value
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
        for recorded, value in report.user_properties
        if recorded == name
    ]
