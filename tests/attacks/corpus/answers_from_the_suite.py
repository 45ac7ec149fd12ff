"""Reads the suite's own twin of the lab out of the installed package.

Kind: Stealing the answer
Relies on: suites that are readable where the submission runs
Breaks naive: points
Level: sandbox
Applies to: diffusers/lab-03
"""

import importlib.util
import sys
from pathlib import Path

for folder in sys.path:
    file = Path(folder) / "infralens/suites/diffusers/lab_03_scheduler_reading/misconceptions.py"
    if file.is_file():
        spec = importlib.util.spec_from_file_location("theirs", file)
        theirs = importlib.util.module_from_spec(spec)
        sys.modules["theirs"] = theirs
        spec.loader.exec_module(theirs)

        class Euler(theirs.Euler):
            pass
