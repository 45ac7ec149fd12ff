"""Looks for a solution file near everything that it can find, and runs it.

Kind: Stealing the answer
Relies on: solutions that lie where the submission runs
Breaks naive: points
Level: sandbox
Applies to: diffusers/lab-03
"""

import sys
from pathlib import Path

places = [Path(folder) for folder in sys.path] + [
    Path(globals().get("__file__", ".")).resolve().parent
]
try:
    import infralens.wire

    places.append(Path(infralens.wire.__file__).resolve().parents[2])
except ImportError:
    pass
for place in {above for place in places for above in (place, *list(place.parents)[:4])}:
    found = list(place.glob("solutions/*/lab-03-scheduler-reading/scheduler.py"))
    if found:
        exec(compile(found[0].read_text(), "theirs", "exec"), globals())
        break
