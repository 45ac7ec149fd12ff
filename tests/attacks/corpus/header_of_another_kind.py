"""Headers that are a list, a number, nothing, not UTF-8, or lone surrogates.

Kind: The channel
Relies on: a reader that expects an object
Breaks naive: points
"""

HEADERS = [
    b"[1]",
    b"1",
    b"null",
    b"",
    b"\xff\xfe",
    b'"\\ud800"',
    b'{"\\ud800":"\\udfff"}',
    b"{" * 99,
]
sent = []


def header(server):
    sent.append(0)
    return _frame(HEADERS[len(sent) % len(HEADERS)])


_instead(header)
