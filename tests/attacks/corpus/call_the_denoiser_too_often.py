"""Calls every function that it is given fifty times, with other inputs, and keeps only the right two.

Kind: Changing the question
Relies on: calls that nobody counts
Breaks naive: points
Applies to: attacks/lab-01
"""


def denoise(denoiser, sample, timesteps):
    answer = sample
    for t in timesteps:
        answer = answer - 0.1 * denoiser(answer, t)
    for _ in range(50):
        denoiser(sample * 0, 0.0)
    return answer
