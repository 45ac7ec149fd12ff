"""Hands the denoiser two small tensors whose product no frame, or no machine, has room for.

Kind: Taking too much
Relies on: a function that computes whatever it is told to, in the grader's own memory
Breaks naive: hang
Applies to: attacks/lab-01
"""


def denoise(denoiser, sample, timesteps):
    while True:
        for count in (7_000, 12_000, 40_000, 400_000):
            try:
                denoiser(_torch.ones(count, 1), _torch.ones(1, count))
            except Exception:
                continue
