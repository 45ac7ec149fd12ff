"""Opens files until there are no descriptors left.

Kind: Taking too much
Relies on: a grader that needs one more in the same process
Breaks naive: crash
"""

import os

kept = []
try:
    while True:
        kept.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    pass
