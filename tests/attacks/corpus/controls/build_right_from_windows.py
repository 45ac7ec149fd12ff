"""The solution with CRLF line ends and a byte order mark.

Kind: Controls
Relies on: nothing
Deserves: all
"""


def build(stub, solution, folder):
    path = folder / "submission.py"
    path.write_bytes(b"\xef\xbb\xbf" + solution.replace("\n", "\r\n").encode())
    return path
