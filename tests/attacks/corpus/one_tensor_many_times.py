"""One tensor of 32 MiB, named a hundred times in the answer: each naming may cost a copy.

Kind: The channel
Relies on: a limit on what arrives and none on what is made of it
Breaks naive: points
"""

SIZE = 32 * 2**20
_tensor_answered(
    {"0": {"dtype": "U8", "shape": [SIZE], "data_offsets": [0, SIZE]}},
    b"\x01" * SIZE,
    [{"t": "tensor", "i": "0", "d": "cpu"}] * 100,
)
