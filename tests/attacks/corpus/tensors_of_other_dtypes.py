"""Tensors of dtypes that the wire does not know: float4, float8, complex, unsigned.

Kind: The channel
Relies on: a reader that takes what safetensors takes
Breaks naive: points
"""

DTYPES = {"F8_E4M3": 1, "F8_E5M2": 1, "C64": 8, "U64": 8, "U16": 2, "F8_E8M0": 1, "F4": 0.5}
sent = []


def other(server):
    sent.append(0)
    name = list(DTYPES)[len(sent) % len(DTYPES)]
    size = int(2 * DTYPES[name])
    entries = {"0": {"dtype": name, "shape": [2], "data_offsets": [0, size]}}
    value = {"t": "tensor", "i": "0", "d": "cpu"}
    header = {"kind": "answer", "call": server.call, "value": value}
    return _frame(header, _safetensors(entries, b"\x01" * size))


_instead(other)
