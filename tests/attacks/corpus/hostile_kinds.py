"""Answers whose kind and call are tensors, arrays, lists, handles.

Kind: The channel
Relies on: a comparison with == on whatever came
Breaks naive: points
"""

IMAGE = {"t": "image", "i": "0"}
TENSOR = {"t": "tensor", "i": "0", "d": "cpu"}
HANDLE = {"t": "handle", "n": 1, "type": "str"}
BODY = _safetensors({"0": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]}}, b"abc")
sent = []


def strange(server):
    sent.append(0)
    thing = (IMAGE, TENSOR, HANDLE, [1], {"t": "dict", "k": [], "v": []})[len(sent) % 5]
    call = thing if len(sent) % 2 else server.call
    kind = "answer" if len(sent) % 2 else thing
    return _frame({"kind": kind, "call": call, "value": thing}, BODY)


_instead(strange)
