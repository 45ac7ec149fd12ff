"""Shapes whose product overflows, is zero with a giant in it, or has 100 dimensions.

Kind: The channel
Relies on: a product that is computed in 64 bits
Breaks naive: points
"""

SHAPES = [[2**32, 2**32], [0, 2**62], [1] * 100, [-1], [2**63], [0] * 70]
sent = []


def impossible(server):
    sent.append(0)
    shape = SHAPES[len(sent) % len(SHAPES)]
    size = 4 if shape == [1] * 100 else 0
    entries = {"0": {"dtype": "F32", "shape": shape, "data_offsets": [0, size]}}
    value = {"t": "tensor", "i": "0", "d": "cpu"}
    header = {"kind": "answer", "call": server.call, "value": value}
    return _frame(header, _safetensors(entries, b"\x00" * size))


_instead(impossible)
