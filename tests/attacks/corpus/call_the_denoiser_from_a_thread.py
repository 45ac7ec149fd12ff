"""Calls the denoiser from a thread, and from a thread that outlives the call.

Kind: Changing the question
Relies on: a callback that does not know whose turn it is
Breaks naive: points
Applies to: attacks/lab-01
"""

import threading
import time


def denoise(denoiser, sample, timesteps):
    answers = []

    def run():
        answer = sample
        for t in timesteps:
            answer = answer - 0.1 * denoiser(answer, t)
        answers.append(answer)

    def again():
        while True:
            time.sleep(0.001)
            try:
                denoiser(sample, 0.0)
            except Exception:
                continue

    threading.Thread(target=again, daemon=True).start()
    thread = threading.Thread(target=run)
    thread.start()
    thread.join(1)
    return answers[0] if answers else sample
