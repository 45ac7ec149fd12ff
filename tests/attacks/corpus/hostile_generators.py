"""Random generators whose state is of the wrong size, or says impossible things.

Kind: The channel
Relies on: a state that is believed
Breaks naive: points
"""

STATE = bytearray(_torch.Generator().get_state().numpy().tobytes())
STATE[8:24] = b"\xff" * 16
ENTRIES = {"0": {"dtype": "U8", "shape": [len(STATE)], "data_offsets": [0, len(STATE)]}}
_tensor_answered(ENTRIES, bytes(STATE), {"t": "generator", "i": "0", "device": "cpu", "seed": "-1"})
