"""Takes away the right to open files.

Kind: Crashing
Relies on: a grader in the same process
Breaks naive: crash
"""

import resource

resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
