"""Ends the process at import with os._exit, past every handler.

Kind: Ending the session
Relies on: an exit code that is read as the verdict
Breaks naive: points
"""

import os

os._exit(0)
