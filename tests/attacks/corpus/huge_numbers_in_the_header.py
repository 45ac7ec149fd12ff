"""1e999, minus it, and whole numbers of four thousand digits.

Kind: The channel
Relies on: JSON readers that make infinities, and tolerances that become one
Breaks naive: points
"""

NUMBERS = b"1e999", b"-1e999", b"9" * 4000, b"-" + b"9" * 4000, b"1" + b"0" * 5000
sent = []


def number(server):
    sent.append(0)
    value = NUMBERS[len(sent) % len(NUMBERS)]
    return _frame(b'{"kind":"answer","call":"%s","value":%s}' % (server.call.encode(), value))


_instead(number)
