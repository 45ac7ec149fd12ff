"""Replaces its process image by a program that succeeds.

Kind: Ending the session
Relies on: an exit code that is read as the verdict
Breaks naive: points
"""

import os
import sys

os.execv(sys.executable, [sys.executable, "-c", "pass"])
