"""Keeps the denoiser and calls it after its call has returned, in every later call.

Kind: Changing the question
Relies on: a callback that works for ever
Breaks naive: points
Applies to: attacks/lab-01
"""

import torch

kept = []


def denoise(denoiser, sample, timesteps):
    if not kept:
        kept.append(denoiser)
    answer = sample
    for t in timesteps:
        answer = answer - 0.1 * kept[0](answer, t)
    return answer


def decode(vae, latents):
    kept[0](latents, 0.0)
    return vae.decode(latents / vae.scaling_factor)
