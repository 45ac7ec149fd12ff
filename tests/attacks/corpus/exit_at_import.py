"""Ends the process with exit code 0 at import.

Kind: Ending the session
Relies on: an exit code that is read as the verdict
Breaks naive: points
"""

import sys

sys.exit(0)
