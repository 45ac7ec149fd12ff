"""A file of random bytes that are not UTF-8.

Kind: Nothing to grade
Relies on: a grader that reads text without care
Breaks naive: crash
"""


def build(stub, solution, folder):
    path = folder / "submission.py"
    path.write_bytes(b"x = '\xff\xfe\x80'\n" + bytes(range(256)))
    return path
