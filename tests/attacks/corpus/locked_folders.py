"""Folders that may not be entered and files that may not be written.

Kind: Taking too much
Relies on: a clean-up that stops at the first thing it may not do
Breaks naive: leftovers
"""

import os
import tempfile

root = tempfile.gettempdir()
for number in range(20):
    os.makedirs(f"{root}/{number}/inner/innermost")
    open(f"{root}/{number}/inner/file", "w").close()
    os.chmod(f"{root}/{number}/inner", 0)
    os.chmod(f"{root}/{number}", 0o500)
