"""A socket in the place of the file.

Kind: Nothing to grade
Relies on: a grader that opens what it is given
Breaks naive: crash
"""

import socket


def build(stub, solution, folder):
    path = folder / "s.py"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    return path
