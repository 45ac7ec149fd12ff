"""Asks the denoiser for large answers without end, and takes none of them.

Kind: The channel
Relies on: a queue of answers that has no bound
Breaks naive: points
Applies to: attacks/lab-01
"""

from infralens.wire import pack


def denoise(denoiser, sample, timesteps):
    server = _server()
    question = {"kind": "callback", "call": server.call, "n": denoiser._number, "kwargs": {}}
    frame = pack({**question, "args": (_torch.ones(4_000, 1), _torch.ones(1, 4_000))})
    while True:
        _say(server, frame)
