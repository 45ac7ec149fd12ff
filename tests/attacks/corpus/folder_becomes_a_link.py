"""Removes its temporary folder and puts a link to another place there.

Kind: Taking too much
Relies on: a clean-up that follows links, or stops at one
Breaks naive: leftovers
"""

import os
import shutil
import tempfile

folder = tempfile.gettempdir()
if os.path.basename(folder).startswith("infralens-"):  # nowhere else, whoever runs this
    os.chdir("/")
    shutil.rmtree(folder)
    os.symlink("/usr", folder)
