"""Lab pages: anchors as GitHub makes them, one section of a page, both printed."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from infralens.cli import main
from infralens.labs import UnknownLabError, find_labs
from infralens.pages import about, anchor, anchors, section
from infralens.passages import passage_of
from infralens.show.paging import letting_styles_through
from infralens.show.rendering import show_page, show_text, with_told_links

PAGE = """# Schedulers

Intro.

## The `step` method

Text.

```python
# not a heading
## The second
```

### Detail

More.

## The second

End.
"""


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("Scaling the input", "scaling-the-input"),
        ("The `step` method", "the-step-method"),
        ("From ᾱ to σ", "from-ᾱ-to-σ"),
        ("What, why & how?", "what-why--how"),
        ("3.1 · `timesteps` (2 points)", "31--timesteps-2-points"),
    ],
)
def test_an_anchor_is_the_one_that_github_makes(heading: str, expected: str) -> None:
    assert anchor(heading) == expected


def test_the_anchors_of_a_page_are_those_of_its_headings() -> None:
    assert anchors(PAGE) == {"schedulers", "the-step-method", "detail", "the-second"}


def test_a_section_holds_its_own_subsections_and_its_code() -> None:
    text = section(PAGE, "the-step-method")
    assert text.startswith("## The `step` method")
    assert "# not a heading" in text
    assert text.rstrip().endswith("More.")


def test_a_heading_inside_code_begins_no_section() -> None:
    assert section(PAGE, "the-second").startswith("## The second\n\nEnd.")


def test_the_last_section_runs_to_the_end_and_none_is_the_whole_page() -> None:
    assert section(PAGE, "the-second").endswith("End.")
    assert section(PAGE, "") == PAGE


LINKS = """[Steps](../../handbook/scheduler.md#steps), [Lab 4](../lab-04-cfg/README.md),
[paper](https://example.org/p), [below](#part) and `[code](x.md)`.

```python
table[0](handbook.md)
```
"""


def test_a_link_is_told_as_the_command_that_follows_it(tmp_path: Path) -> None:
    text = with_told_links(LINKS, tmp_path / "diffusers" / "lab-03" / "README.md", "infralens")
    steps = (tmp_path / "handbook" / "scheduler.md").as_uri()
    assert f"[Steps]({steps}) (`infralens read scheduler#steps`)" in text
    assert "(`infralens read lab-04-cfg`)" in text
    assert "[paper](https://example.org/p) (https://example.org/p)" in text
    assert "below and `[code](x.md)`" in text
    assert "table[0](handbook.md)" in text


def test_a_terminal_gets_links_to_click_and_a_file_none(tmp_path: Path) -> None:
    for terminal in (True, False):
        stream = io.StringIO()
        console = Console(file=stream, width=100, force_terminal=terminal)
        show_text(LINKS, console, tmp_path / "README.md")
        assert ("file://" in stream.getvalue()) is terminal
        assert "[Steps](" not in stream.getvalue()
        assert "infralens read scheduler#steps" in " ".join(stream.getvalue().split())


@pytest.mark.parametrize(
    ("environment", "styled", "less"),
    [
        ({"PAGER": "less"}, True, "FRX"),
        ({"PAGER": "/usr/bin/less -i", "LESS": "iM"}, True, "iM -R"),
        ({"PAGER": "less", "LESS": "-R"}, True, "-R"),
        ({"PAGER": "more"}, False, None),
        ({"MANPAGER": "cat", "PAGER": "less"}, True, None),
    ],
)
def test_a_pager_gets_styles_only_where_it_shows_them(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], styled: bool, less: str | None
) -> None:
    for name in ("PAGER", "MANPAGER", "LESS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with letting_styles_through() as through:
        assert (through, os.environ.get("LESS")) == (styled, less)
    assert os.environ.get("LESS") == environment.get("LESS")


@pytest.mark.parametrize(("pager", "styled"), [("less", True), ("more", False)])
def test_read_asks_the_pager_of_a_terminal_so(
    monkeypatch: pytest.MonkeyPatch, pager: str, styled: bool
) -> None:
    seen: list[tuple[str, str | None]] = []
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    monkeypatch.setattr("pydoc.pager", lambda text: seen.append((text, os.environ.get("LESS"))))
    for name in ("MANPAGER", "LESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PAGER", pager)
    monkeypatch.setenv("TERM", "xterm")
    assert CliRunner(catch_exceptions=False).invoke(main, ["read", "glossary"]).exit_code == 0
    ((text, less),) = seen
    assert "Glossary" in text
    assert ("\x1b[" in text, less) == (styled, "FRX" if styled else None)


def test_the_page_is_printed_and_then_its_section(workshop: Any) -> None:
    lab = workshop.lab("")
    handbook = lab.place.exercises / "handbook"
    handbook.mkdir()
    (handbook / "probe.md").write_text("# Less\n\nhidden\n\n# More\n\nshown\n", encoding="utf-8")
    shown = io.StringIO()
    show_page(lab, Console(file=shown, width=80))
    text = shown.getvalue()
    assert text.index("The page.") < text.index("shown")
    assert "hidden" not in text


def test_a_page_that_is_not_utf8_is_shown_all_the_same(workshop: Any) -> None:
    lab = workshop.lab("")
    lab.page.write_bytes("# Café\n".encode("latin-1"))
    shown = io.StringIO()
    show_page(lab, Console(file=shown, width=80))
    assert "Caf\ufffd" in shown.getvalue()


def test_a_page_without_a_handbook_is_printed_alone(workshop: Any) -> None:
    shown = io.StringIO()
    show_page(workshop.lab(""), Console(file=shown, width=80))
    assert "The page." in shown.getvalue()


def test_every_todo_has_its_part_of_the_page() -> None:
    for lab in find_labs():
        page = lab.page.read_text(encoding="utf-8")
        without = [todo.id for todo in lab.todos if f"{todo.id} · " not in about(page, todo.id)]
        assert without == [], lab.id


def test_a_part_of_a_labs_page_is_named_by_a_todo_or_an_anchor() -> None:
    labs = find_labs()
    passage = passage_of("2.2", labs)  # its heading names two
    assert passage.lab.short == "lab-02"
    assert passage.text.startswith("### 2.1")
    assert "### 2.3" not in passage.text
    assert passage.reading == "handbook/process.md#what-the-network-is-asked-for"
    assert passage_of("diffsynth/4.1", labs).text.startswith("### 4.1 · `denoise`")
    assert passage_of("lab-01#checkpoints", labs).text.startswith("## Checkpoints")
    with pytest.raises(UnknownLabError, match=r"has no section 'chekpoints'\. Did you mean check"):
        passage_of("lab-01#chekpoints", labs)


def test_a_todo_is_read_while_its_wrong_answers_cannot_be(workshop: Any) -> None:
    lab = workshop.lab("", wrong="- nothing")
    lab.page.write_text("# Probe\n\n### 90.1 · `scale`\n\nIt scales.\n", encoding="utf-8")
    passage = passage_of("90.1", [lab])
    assert passage.text.startswith("### 90.1")
    assert passage.reading == lab.reading


def test_a_todo_is_read_with_its_section_and_told_where_the_whole_page_is() -> None:
    told = CliRunner().invoke(main, ["read", "1.3"]).stdout
    assert 0 < told.index("Four things to get right") < told.index("t steps are one jump")
    assert told.endswith("The whole page: infralens read lab-01\n")
    assert "Further reading" not in told


def test_code_and_diagrams_keep_their_lines_in_a_narrow_terminal() -> None:
    wide = "first ──► second ──► third ──► fourth  # and on"
    page = f"Many words that are longer than a line.\n\n```python\n{wide}\n```\n\n    {wide}\n"
    shown = io.StringIO()
    show_text(page, Console(file=shown, width=20))
    lines = [line.strip() for line in shown.getvalue().splitlines()]
    assert lines.count(wide) == 2
    assert "Many words that are" in lines


def test_a_long_name_in_a_narrow_table_is_broken_and_not_cut_off() -> None:
    name = "enable_sequential_cpu_offload"
    page = f"| what | does |\n| --- | --- |\n| `{name}` | {'moves every leaf ' * 5}|\n"
    console = Console(file=io.StringIO(), width=40)
    show_text(page, console)
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert "…" not in shown
    column = "".join(line.split("  ")[0].strip() for line in shown.splitlines())
    assert name in column


def test_a_figure_is_told_in_its_words() -> None:
    page = "See:\n\n![A star, then noise.](figures/dissolving.png)\n\n`![code](stays.png)`\n"
    told = with_told_links(page, None, "infralens")
    assert "*Figure: A star, then noise.*" in told
    assert "dissolving.png" not in told
    assert "`![code](stays.png)`" in told
    printed = io.StringIO()
    show_text(page, Console(file=printed, width=60))
    assert "Figure: A star, then noise." in printed.getvalue()
