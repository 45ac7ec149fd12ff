"""Sets attributes of a lent object, so that the reference reads them too.

Kind: Changing the question
Relies on: an object that is shared with the reference
Breaks naive: points
Applies to: attacks/lab-01
"""


def decode(vae, latents):
    for name in ("scaling_factor", "decode", "uses", "target"):
        try:
            setattr(vae, name, 1.0)
        except Exception:
            continue
    return latents.zero_() + latents + (latents + 1 if "scaling_factor" in vars(vae) else 0)
