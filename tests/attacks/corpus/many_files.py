"""Twenty thousand files in the temporary folder and in the working folder.

Kind: Taking too much
Relies on: a temporary folder that nobody cleans
Breaks naive: leftovers
"""

import os
import tempfile

for number in range(20_000):
    folder = tempfile.gettempdir() if number % 2 else os.curdir
    os.close(os.open(f"{folder}/{number}", os.O_CREAT | os.O_WRONLY))
