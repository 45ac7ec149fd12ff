"""The site in a real browser: every page opens, nothing leaves the machine, all of it is used."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest

from infralens.course.audit import Auditor
from infralens.labs import Lab, find_labs
from infralens.show.site.building import build_site
from infralens.show.site.errors import SiteError

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
LABS = find_labs()
pytestmark = [  # built once, by one worker
    pytest.mark.browser,
    pytest.mark.site,
    pytest.mark.xdist_group("site"),
    pytest.mark.filterwarnings(
        "ignore:.*MystReferenceResolver.app:PendingDeprecationWarning"
    ),  # theirs
]


def answers(lab: Lab) -> Sequence[str]:
    """Working the real ones out takes diffusers and long; what they are is told elsewhere."""
    asked = (lab.suite / "quiz.py").read_text(encoding="utf-8").count("\n@question(")
    return [f"answer {number} of {lab.id}" for number in range(1, asked + 1)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("made") / "site"
    build_site(LABS, out, answers)
    return out


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page whose every error and every way out of the machine fails the test."""
    page = browser.new_page()
    said = overheard(page)
    yield page
    page.close()
    assert said == []


def overheard(page: Page) -> list[str]:
    """What goes wrong on a page and what it asks the network for, as it comes."""
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: said.append(request.url) if is_far(request.url) else None)
    page.on("requestfailed", lambda request: said.append(f"failed: {request.url}"))
    return said


def is_far(address: str) -> bool:
    return not address.startswith(("file:", "data:"))


def lab_page(site: Path) -> str:
    lab = next(lab for lab in LABS if lab.short == "lab-03")
    return (site / "diffusers" / lab.folder / "index.html").as_uri()


# The texts that stand out from what is behind them by less than 4.5 to 1, as WCAG 2 reckons it.
PALE = """() => {
  const parts = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = rgb => rgb.slice(0, 3).map(x => x / 255)
    .map(x => x <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4)
    .reduce((sum, x, i) => sum + x * [.2126, .7152, .0722][i], 0);
  const over = (top, below) => {
    const a = top.length > 3 ? top[3] : 1;
    return [0, 1, 2].map(i => a * top[i] + (1 - a) * below[i]);
  };
  const known = new Map();
  const behind = element => {
    if (!element) return [255, 255, 255];
    if (!known.has(element)) {
      const own = parts(getComputedStyle(element).backgroundColor);
      known.set(element, own[3] === 0 ? behind(element.parentElement)
        : over(own, behind(element.parentElement)));
    }
    return known.get(element);
  };
  const pale = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !element.checkVisibility({visibilityProperty: true}))
      continue;
    const ground = behind(element), ink = over(parts(getComputedStyle(element).color), ground);
    const [low, high] = [light(ink), light(ground)].sort((a, b) => a - b);
    const ratio = (high + .05) / (low + .05);
    if (ratio < 4.5) pale.add(`${element.className || element.localName}: ${ratio.toFixed(2)}`);
  }
  return [...pale];
}"""


def test_every_page_opens_and_can_be_read_and_its_links_lead_somewhere(
    site: Path, page: Page
) -> None:
    opened, wanted = {}, set()
    pale: dict[str, list[str]] = {}
    for path in sorted(site.rglob("*.html")):
        address = path.as_uri()
        page.goto(address)
        opened[address] = set(page.eval_on_selector_all("[id]", "all => all.map(x => x.id)"))
        wanted |= set(page.eval_on_selector_all("a[href]", "all => all.map(x => x.href)"))
        for mode in ("light", "dark"):
            page.emulate_media(color_scheme=mode, reduced_motion="reduce")
            if found := page.evaluate(PALE):
                pale[f"{path.name} {mode}"] = found
    lost = []
    for link in wanted:
        address, _, part = link.partition("#")
        if is_far(address):
            continue
        there = Path(unquote(address.removeprefix("file://")))
        if not there.is_file() or (part and part not in opened.get(address, {part})):
            lost.append(link)
    assert lost == []
    assert pale == {}
    assert len(opened) > len(LABS)


def test_formulas_are_set_and_none_is_left_as_it_is_written(site: Path, page: Page) -> None:
    page.goto((site / "handbook" / "process.html").as_uri())
    heights = page.eval_on_selector_all(
        ".formulas mfrac", "all => all.map(x => x.getBoundingClientRect().height)"
    )
    assert len(heights) >= 5
    assert min(heights) > 25  # a line of text has some 16: they stand above each other
    page.eval_on_selector_all("pre, code, math", "all => all.forEach(x => x.remove())")
    left = page.locator("article").inner_text()
    assert not re.findall(r"√|(?<!\w)\w_[\w(]\S*", left.replace("v_prediction", ""))


def unreached(page: Page) -> list[str]:
    """What can be seen and used, and is not come to by the key Tab."""
    count = page.evaluate(
        """() => {
          window.awaited = new Set([...document.querySelectorAll("a[href], button, summary, input")]
            .filter(x => x.checkVisibility({visibilityProperty: true}) && x.type != "hidden"
              && x.getBoundingClientRect().width));
          document.addEventListener("focusin", event => window.awaited.delete(event.target));
          return window.awaited.size;
        }"""
    )
    for _ in range(count + 20):
        page.keyboard.press("Tab")
    left: list[str] = page.evaluate("[...window.awaited].map(x => x.outerHTML)")
    return left


def test_the_keyboard_reaches_all(site: Path, page: Page) -> None:
    page.goto(lab_page(site))
    assert unreached(page) == []


def test_what_is_pale_or_out_of_reach_or_far_away_is_seen(browser: Browser) -> None:
    page = browser.new_page()
    said = overheard(page)
    page.set_content(
        "<p class=pale style='color:#999;background:#fff'>a</p><p>b</p>"
        "<a href='#'>in reach</a><a href='#' tabindex=-1>out</a><img src='http://127.0.0.1:9/x'>"
    )
    assert page.evaluate(PALE) == ["pale: 2.85"]
    assert unreached(page) == ['<a href="#" tabindex="-1">out</a>']
    assert "http://127.0.0.1:9/x" in said
    page.close()


def test_the_search_finds_a_term(site: Path, page: Page) -> None:
    page.goto((site / "search.html").as_uri() + "?q=ancestral")
    found = page.locator("ul.search li a")
    found.first.wait_for()
    assert any("scheduler" in (link.get_attribute("href") or "") for link in found.all())


def test_a_checkpoint_reveals_its_answer(site: Path, page: Page) -> None:
    page.goto(lab_page(site))
    answer = page.get_by_text("answer 2 of diffusers/lab-03")
    assert not answer.is_visible()
    page.get_by_text("Answer", exact=True).nth(1).press("Enter")
    assert answer.is_visible()


def test_no_answer_to_a_todo_is_in_it(site: Path) -> None:
    assert [str(found) for found in Auditor(LABS).audit(site)] == []


def test_a_page_that_breaks_off_leaves_no_half_of_a_site(tmp_path: Path) -> None:
    out = tmp_path / "site"
    with pytest.raises(SiteError, match="asks 1, its page 6"):
        build_site(LABS, out, lambda lab: ["one"])
    assert list(tmp_path.iterdir()) == []
    out.mkdir()
    (out / "thesis.txt").touch()
    with pytest.raises(SiteError, match="holds something that is no site"):
        build_site(LABS, out, answers)
