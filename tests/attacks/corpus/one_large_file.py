"""Writes one file of 1 GiB (sparse).

Kind: Taking too much
Relies on: a temporary folder that nobody cleans, or a file that is read back
Breaks naive: leftovers
"""

import os
import tempfile

with open(f"{tempfile.gettempdir()}/large", "wb") as file:
    os.truncate(file.fileno(), 2**30)
