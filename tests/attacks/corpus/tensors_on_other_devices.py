"""Tensors and generators that are to be made on a GPU that is not there, and on other devices.

Kind: The channel
Relies on: a device that is believed
Breaks naive: points
"""

DEVICES = ["cuda:7", "cuda", "mps", "meta", "cuda:99", "xla", "cpu:1", "cpu\n", ""]
ENTRIES = {"0": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}
sent = []


def device(server):
    sent.append(0)
    name = DEVICES[len(sent) // 2 % len(DEVICES)]
    value = {"t": "tensor", "i": "0", "d": name}
    if len(sent) % 2:
        value = {"t": "generator", "i": "0", "device": name, "seed": "9" * 30}
    header = {"kind": "answer", "call": server.call, "value": value}
    return _frame(header, _safetensors(ENTRIES, b"\x01" * 4))


_instead(device)
