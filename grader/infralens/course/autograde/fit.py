"""What nbgrader must not meet in submitted/ is moved out of its way first.

It follows links, and copies what lies beside a notebook on to autograded/ and feedback/: a link to
a file of the instructor's would come back to the learner as what is in it. And one timestamp.txt
that it cannot read keeps formgrader from showing the whole class.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nbgrader.utils import parse_utc

from infralens.regular import read_regular, refuse_links
from infralens.show.harmless import one_line

ASIDE = "set-aside"  # the folder of a course where it goes, and nothing is lost
TIME = "timestamp.txt"
MOST_TIME = 1000  # bytes
YEARS = range(1970, 9000)  # in any time zone a year
MOST_TOLD = 3


def made_fit(converter: Any) -> Iterator[str]:
    """Make what nbgrader's Autograde is going to read fit for it. A sentence for what was not.

    A folder that is a link is taken from its plan. Unfit files are moved out of its way.
    """
    course = Path(converter.coursedir.root)
    submitted = course / converter.coursedir.submitted_directory
    stamp = time.strftime("%Y-%m-%d-%H%M%S")
    for name in sorted(converter.assignments):
        folder = Path(name)
        inside = folder.relative_to(submitted if submitted in folder.parents else folder.parent)
        aside = course / ASIDE / stamp / inside
        try:
            refuse_links(folder.parents[len(inside.parts) - 1], folder)
            moved = [_set_aside(path, aside / path.relative_to(folder)) for path in unfit(folder)]
        except OSError as error:
            del converter.assignments[name]
            yield f"{one_line(str(inside))} is not graded: {error.strerror}."
        else:
            if moved:
                first = ", ".join(path.relative_to(aside).as_posix() for path in moved[:MOST_TOLD])
                more = f" and {len(moved) - MOST_TOLD} more" if len(moved) > MOST_TOLD else ""
                yield (
                    f"{one_line(str(inside))}: {one_line(first)}{more} cannot be used (a link, a "
                    f"pipe, or no time) and was moved to {ASIDE}/{stamp}; the notebook is graded."
                )


def unfit(folder: Path) -> list[Path]:
    """The links, pipes and devices in a folder, and a timestamp.txt that holds no time.

    Notebooks are read with suspicion, and not copied.
    """
    told = folder / TIME
    found = [told] if os.path.lexists(told) and not is_time(told) else []
    for here, _, names in os.walk(folder):
        paths = (Path(here, name) for name in sorted(names) if not name.endswith(".ipynb"))
        found += [path for path in paths if path != told and not _is_plain(path)]
    return found


def is_time(path: Path) -> bool:
    """Whether a file holds a time that nbgrader reads."""
    try:
        text = read_regular(path, MOST_TIME, follow=False).decode("utf-8").strip()
        return parse_utc(text).year in YEARS
    except (OSError, ValueError, OverflowError, TypeError, AttributeError):
        return False


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _set_aside(path: Path, place: Path) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    path.replace(place)  # of a link the link itself
    return place
