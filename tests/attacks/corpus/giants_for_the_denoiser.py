"""Hands the denoiser one large tensor after another: the check keeps a copy of each.

Kind: Taking too much
Relies on: a record of what was handed over that has no bound
Breaks naive: hang
Applies to: attacks/lab-01
"""


def denoise(denoiser, sample, timesteps):
    large = _torch.zeros(2**24)
    while True:
        try:
            denoiser(large, 0.0)
        except Exception:
            continue
