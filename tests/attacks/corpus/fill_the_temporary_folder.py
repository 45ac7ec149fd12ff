"""Writes 512 MiB into the temporary folder.

Kind: Taking too much
Relies on: a temporary folder that nobody cleans
Breaks naive: leftovers
"""

import tempfile

for number in range(16):
    with open(f"{tempfile.gettempdir()}/{number}", "wb") as file:
        file.write(b"x" * (32 * 2**20))
