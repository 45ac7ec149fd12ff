"""Markdown pages as text: their headings, anchors and sections."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

MOST_TOLD = 60  # letters of a name that is not known
FENCED = re.compile(r"(^```.*?^```|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
FIGURE = re.compile(r"!\[([^\]]*)\]\((?![a-z]+:)[^)\s]+\)")
HEADING = re.compile(r"^(#{1,6})\s+(.+?)\s*#*$")


def anchor(heading: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).strip().replace(" ", "-")


def _headings(page: str) -> Iterator[tuple[str, re.Match[str] | None]]:
    """Each line of a page, and its match when it is a heading (not inside a code fence)."""
    fenced = False
    for line in page.splitlines():
        fenced ^= line.startswith("```")
        yield line, None if fenced else HEADING.match(line)


def with_figures_told(page: str) -> str:
    """The page with each figure in its words: for where the file it lies in cannot be seen."""
    pieces = FENCED.split(page)  # what is code is at odd places
    pieces[::2] = [FIGURE.sub(r"*Figure: \1*", piece) for piece in pieces[::2]]
    return "".join(pieces)


def title(page: str) -> str:
    """What the page is called: its first heading. Empty without one."""
    return next((match[2] for _, match in _headings(page) if match), "")


def anchors(page: str) -> set[str]:
    """The anchors of a Markdown page."""
    return {anchor(match[2]) for _, match in _headings(page) if match}


def pieces(page: str, deepest: int) -> Iterator[tuple[str, str]]:
    """The page cut at its headings of at most this depth: (heading, text with the heading).

    What stands before the first of them has the heading "".
    """
    heading, taken = "", list[str]()
    for line, match in _headings(page):
        if match and len(match[1]) <= deepest:
            if taken:
                yield heading, "\n".join(taken).strip()
            heading, taken = match[2], []
        taken.append(line)
    yield heading, "\n".join(taken).strip()


def about(page: str, todo: str) -> str:
    """The part of a lab's page whose heading names this todo, as `### 1.3 · …`; "" without one."""
    names = re.compile(rf"(?:^|\s){re.escape(todo)} · ")
    found = (match for _, match in _headings(page) if match and names.search(match[2]))
    heading = next(found, None)
    return section(page, anchor(heading[2])) if heading else ""


def no_section(of: str, wanted: str, page: str) -> str:
    """What is told of a section that a page has not."""
    near = difflib.get_close_matches(wanted[:MOST_TOLD], anchors(page), n=1, cutoff=0.4)
    advice = f" Did you mean {near[0]}?" if near else ""
    return f"{of} has no section {wanted[:MOST_TOLD]!r}.{advice}"


def section(page: str, wanted: str) -> str:
    """The part of a page under the heading with this anchor; the whole page without one."""
    if not wanted:
        return page
    taken: list[str] = []
    depth = 0
    for line, match in _headings(page):
        if match and depth and len(match[1]) <= depth:
            break
        if match and anchor(match[2]) == wanted and not depth:
            depth = len(match[1])
        if depth:
            taken.append(line)
    return "\n".join(taken)
