"""`python -m infralens.authoring.figures [NAME …]`: the figures drawn again, all or those named."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch

from infralens import shapes
from infralens.authoring.figures import FIGURES, GRIDS, drawn, folder
from infralens.regular import write_whole


def main(names: Sequence[str]) -> int:
    """Draw the figures of these names, or all."""
    known = (*FIGURES, *GRIDS)
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"There is no figure {unknown[0]!r}: {', '.join(known)}.", file=sys.stderr)
        return 2
    shapes.quiet()
    torch.set_num_threads(1)
    for name in names or known:
        path = folder() / f"{name}.png"
        write_whole(path, drawn(name))
        print(f"{path.name}: {path.stat().st_size:,} bytes", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
