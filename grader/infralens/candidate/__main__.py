"""`python -m infralens.candidate`: serve the examiner over stdin and stdout.

With `--template`: load torch, then fork a candidate whenever the examiner asks for one; with
`--sandboxes` too, each in a sandbox of its own, which is tried first.
`--load a,b` imports these modules too, before anything is asked.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from typing import BinaryIO

from infralens.candidate import limits


def main() -> None:
    """Get ready, become a candidate, and serve."""
    limits.die_with_the_examiner()
    limits.stay_private()
    if "--template" in sys.argv:
        from infralens.candidate.template import serve_forks, try_a_sandbox

        if "--sandboxes" in sys.argv:
            try_a_sandbox()
        _load_libraries()
        serve_forks()  # goes on in each candidate
        channel = _take_the_channel()
    else:
        channel = _take_the_channel()
        _load_libraries()
    from infralens.candidate.serving import Server

    Server(*channel).run()


def _take_the_channel() -> tuple[BinaryIO, BinaryIO]:
    """Take requests and answers away from stdin and stdout.

    What the submission prints goes to stderr, which the examiner reads, bounded.
    """
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    sys.stdout = sys.stderr  # one stream, one buffer: lines stay in the order they were printed
    return requests, answers


def _load_libraries() -> None:
    gc.disable()  # while they are imported: nothing of them is garbage
    import torch

    import infralens.candidate.serving  # noqa: F401  # loaded once, before any fork

    if "--load" in sys.argv:
        for name in sys.argv[sys.argv.index("--load") + 1].split(","):
            importlib.import_module(name)
    torch.set_num_threads(1)  # small tensors: two processes that spin on two cores only wait
    gc.freeze()
    gc.enable()


main()
