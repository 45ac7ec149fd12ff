"""Sets the recursion limit so low that nothing else in the process can run.

Kind: Crashing
Relies on: a grader in the same process
Breaks naive: crash
"""

import sys


for limit in range(1, 1000):
    try:
        sys.setrecursionlimit(limit)
        break
    except RecursionError:
        continue
