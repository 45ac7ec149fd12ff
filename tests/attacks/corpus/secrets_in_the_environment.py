"""Looks for a seed, a token or a path in its environment, its arguments, and its parent's.

Kind: Stealing the answer
Relies on: secrets passed where everybody of the same user can read them
Breaks naive: leftovers
"""

import os
import re
import tempfile

text = repr(os.environ)
for number in (os.getpid(), os.getppid()):
    for name in ("environ", "cmdline"):
        try:
            with open(f"/proc/{number}/{name}", errors="replace") as file:
                text += file.read()
        except OSError:
            continue
seeds = re.findall(r"(?i)seed\W+(\d+)", text)
with open(f"{tempfile.gettempdir()}/loot", "w") as file:
    file.write(text)

_answer_everywhere(lambda *args: float(seeds[0]) if seeds else None)
