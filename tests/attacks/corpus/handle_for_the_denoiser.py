"""Hands the denoiser a number that stands for an object of the submission's own.

Kind: The channel
Relies on: a grader that asks the submission about what it is handed
Breaks naive: points
Applies to: attacks/lab-01
"""


def denoise(denoiser, sample, timesteps):
    server = _server()
    handle = {"t": "handle", "n": 1, "type": "Tensor"}
    question = {"kind": "callback", "call": server.call, "n": denoiser._number}
    question |= {"args": {"t": "tuple", "v": [handle, [{"t": "tuple", "v": [handle]}]]}}
    _say(server, _frame({**question, "kwargs": {"t": "dict", "k": [], "v": []}}))
    server._reply()
    return sample
