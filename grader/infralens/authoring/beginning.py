"""`infralens new`: the few files of a new lab, each saying what belongs in it."""

from __future__ import annotations

import json
import re
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from infralens.labs import DEFAULT_TRACK, is_installed, own_place
from infralens.regular import write_whole
from infralens.stubs import stub_of

LONGEST_TITLE = 80


class BadNameError(ValueError):
    """A track, lab or title that cannot be used; the text says why."""


def begin_lab(
    track: str, lab: str, title: str, into: Path | None, file: str | None = None
) -> list[Path]:
    """Write a new lab's files; nothing that is there already is touched.

    `into` is a folder of labs outside the package (suites/, exercises/, solutions/). `file` is the
    submission's name, by default the title's words.
    """
    match = re.fullmatch(r"lab-([0-9]{2})", lab)
    slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    if not match:
        raise BadNameError(f"{lab!r} is no lab's name; it must look like lab-11.")
    if not re.fullmatch(r"[a-z][a-z0-9]*", track):
        raise BadNameError(f"{track!r} is no track's name; use small letters and digits.")
    if len(title) > LONGEST_TITLE or not title.isprintable():
        raise BadNameError(f"{title[:LONGEST_TITLE]!r} is no title: one line of text, and short.")
    if not slug:
        raise BadNameError(f"The title {title!r} has no letter in it.")
    if slug[0].isdigit():
        raise BadNameError(f"The title {title!r} begins with a number; no Python file is named so.")
    suites, exercises, solutions = _roots(into)
    if list((suites / track).glob(f"lab_{match[1]}_*")):
        raise BadNameError(f"{track} has a {lab} already.")
    folder, file = f"{lab}-{slug}", file or f"{slug.replace('-', '_')}.py"
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,60}\.py", file):
        raise BadNameError(f"{file!r} is no file's name; it must look like scheduler_loop.py.")
    facts = {
        "title": title,
        "quoted": json.dumps(title, ensure_ascii=False),  # YAML's quoted texts hold JSON's
        "documented": title.replace("\\", r"\\").replace('"', r"\""),
        "lab": lab,
        "track": track,
        "number": int(match[1]),
        "heading": f"Lab {match[1]}{'' if track == DEFAULT_TRACK else f' ({track})'} · {title}",
        "file": file,
        "page": f"{slug}.md" if into else "scheduler.md",
    }
    suite = suites / track / folder.replace("-", "_")
    texts = {
        suite / "lab.yaml": _rendered("lab.yaml", facts),
        suite / f"test_{file}": _rendered("test_lab.py", facts),
        suite / "wrong.yaml": _rendered("wrong.yaml", facts),
        suite / "quiz.py": _rendered("quiz.py", facts),
        solutions / track / folder / file: _rendered("solution.py", facts),
        exercises / track / folder / "README.md": _rendered("README.md", facts),
    }
    if into is not None:  # a folder of labs has a handbook of its own
        texts[exercises / "handbook" / f"{slug}.md"] = f"# {title}\n\nTODO: the reading.\n"
    solution = texts[solutions / track / folder / file]
    texts[exercises / track / folder / file] = stub_of(solution, {"double": f"{facts['number']}.1"})
    for path, text in texts.items():
        write_whole(path, text)
    return list(texts)


def _roots(into: Path | None) -> tuple[Path, Path, Path]:
    if into is not None:
        return into / "suites", into / "exercises", into / "solutions"
    place = own_place()
    if is_installed() or place.solutions is None:
        raise BadNameError(
            "This is an installed package, not a checkout; name a folder of your own with --into."
        )
    return place.suites, place.exercises, place.solutions


def _rendered(name: str, facts: dict[str, object]) -> str:
    environment = Environment(
        loader=PackageLoader("infralens.authoring", "templates"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    return environment.get_template(f"{name}.jinja").render(facts)
