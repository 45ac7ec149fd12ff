"""Leaves another program behind, with an empty environment and another name.

Kind: Never answering
Relies on: finding what is left by its name or its environment
Breaks naive: leftovers
"""

import subprocess


def start(*args, **kwargs):
    subprocess.Popen(["/bin/sleep", "60"], env={}, cwd="/", start_new_session=True)


_in_every_call(start)
