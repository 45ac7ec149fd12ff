"""The process that draws: `python -m infralens.show.pictures LAB FILE OUT SEED`.

It is a process of its own because the submission's processes are this one's children, and nobody
else's. Exit codes as those of `grade`: 1 when the learner's code is in the way, 2 for a file that
cannot be read or written, 3 when this program is wrong.
"""

from __future__ import annotations

import importlib
import signal
import sys
from pathlib import Path
from typing import NoReturn

from infralens.examiner.errors import UnavailableError, UnreadableError
from infralens.examiner.isolation.ourselves import end_with_the_parent
from infralens.labs import find_lab, find_labs
from infralens.regular import write_whole
from infralens.show.harmless import one_line
from infralens.show.pictures import DRAWN
from infralens.show.pictures.answers import NotDrawnError

DRAWN_ALL, IN_THE_WAY, WRONG_USAGE, BROKEN, INTERRUPTED = 0, 1, 2, 3, 130


def main(lab_id: str, file: str, out: str, seed: str) -> int:
    """Draw the lab's picture by the functions in `file` into `out`, and say how it went."""
    signal.signal(signal.SIGTERM, _leave)
    end_with_the_parent()
    try:
        write_whole(Path(out), drawn(lab_id, Path(file), int(seed)))
    except NotDrawnError as error:
        return _said(f"Nothing is drawn: {error}", IN_THE_WAY)
    except (UnreadableError, UnavailableError) as error:
        return _said(f"infralens: {error}", WRONG_USAGE)
    except OSError as error:
        said = f"infralens: {out} cannot be written: {error.strerror or error}."
        return _said(said, WRONG_USAGE if error.filename is not None else BROKEN)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        return _said(f"infralens: the drawing failed: {type(error).__name__}: {error}", BROKEN)
    return DRAWN_ALL


def drawn(lab_id: str, file: Path, seed: int) -> bytes:
    """The picture as a PNG file."""
    import torch

    from infralens import shapes
    from infralens.show.pictures.learner import candidate_of

    shapes.quiet()
    torch.set_num_threads(1)
    lab = find_lab(lab_id, find_labs())
    drawing = importlib.import_module(f"infralens.show.pictures.{DRAWN[lab_id]}")
    look = importlib.import_module("infralens.show.pictures.look")
    with candidate_of(lab, file) as mine, torch.no_grad():
        figure = drawing.draw(mine, seed)
    png: bytes = look.as_png(figure)
    return png


def _said(sentence: str, code: int) -> int:
    print(one_line(sentence), file=sys.stderr)
    return code


def _leave(*_: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
