"""Three thousand folders, each in the one before: deeper than a recursive clean-up can go.

Kind: Taking too much
Relies on: shutil.rmtree
Breaks naive: leftovers
"""

import os
import tempfile

os.chdir(tempfile.gettempdir())
for _ in range(3000):
    os.mkdir("d")
    os.chdir("d")
