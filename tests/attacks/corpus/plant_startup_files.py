"""Leaves sitecustomize, usercustomize, conftest and shadowing modules wherever it may start again.

Kind: Reaching the verdict
Relies on: a second process that starts in the same folder, or with the same home
Breaks naive: leftovers
"""

import os
import tempfile

BAD = "import os\nos._exit(0)\n"
for folder in {os.getcwd(), os.path.expanduser("~"), tempfile.gettempdir()}:
    if "infralens-" not in folder:  # only where a candidate was put
        continue
    for name in ("sitecustomize", "usercustomize", "conftest", "torch", "infralens", "json"):
        with open(f"{folder}/{name}.py", "w") as file:
            file.write(BAD)


_in_every_call(lambda *args, **kwargs: os._exit(0))
