"""The figures of the attack corpus, one row a kind: `python tests/attacks/figures.py [NAME …]`.

tried: attacks and controls set at the grader. points: given beyond what was deserved. crashes: of
the examiner, or grader errors. past s: the worst seconds past the limit. left: processes and files
left behind. misjudged: controls. other: attacks with any fault at all.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from arena import Arena, Figure, isolation_of, pairs, table


def main() -> None:
    wanted = sys.argv[1:]
    started, skipped = time.monotonic(), 0
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="attacks-") as folder:
        arena = Arena(Path(folder))
        try:
            for attack, lab in pairs():
                if wanted and attack.path.stem not in wanted and attack.name not in wanted:
                    continue
                if isolation_of(attack) is None:
                    skipped += 1
                    continue
                outcome = arena.run(attack, lab)
                figures.append(outcome.figure())
                said = "; ".join(outcome.faults()) or "as it should be"
                print(
                    f"{lab.name} {attack.path.stem} ({outcome.seconds:.1f} s): {said}", flush=True
                )
        finally:
            arena.close()
    print(f"\n{table(figures, arena.deaths)}")
    print(
        f"{skipped} need the sandbox and were not tried. {time.monotonic() - started:.0f} seconds."
    )


if __name__ == "__main__":
    main()
