"""Leaves 64 MiB in /dev/shm, which is memory and outlives the process.

Kind: Taking too much
Relies on: looking only at processes and the temporary folder
Breaks naive: leftovers
Level: sandbox
"""

import os

with open(f"/dev/shm/infralens-attack-{os.getpid()}", "wb") as file:
    file.write(b"x" * (64 * 2**20))
