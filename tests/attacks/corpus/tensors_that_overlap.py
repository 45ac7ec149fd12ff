"""Two tensors on the same bytes, and one larger than the bytes it has.

Kind: The channel
Relies on: offsets that are believed
Breaks naive: points
"""

_tensor_answered(
    {
        "0": {"dtype": "F32", "shape": [4], "data_offsets": [0, 8]},
        "1": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
    },
    b"\x00" * 8,
)
