"""A safetensors header that points outside its buffer, before it and past it.

Kind: The channel
Relies on: offsets that are believed
Breaks naive: points
"""

OFFSETS = [[0, 4000], [2**62, 2**62 + 4], [4, 0], [-4, 0], [0, 2**64]]
sent = []


def outside(server):
    sent.append(0)
    entries = {"0": {"dtype": "F32", "shape": [1], "data_offsets": OFFSETS[len(sent) % 5]}}
    value = {"t": "tensor", "i": "0", "d": "cpu"}
    header = {"kind": "answer", "call": server.call, "value": value}
    return _frame(header, _safetensors(entries, b"\x00" * 4))


_instead(outside)
