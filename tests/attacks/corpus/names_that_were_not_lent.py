"""Asks a lent object for what was not declared: its class, its module, its globals.

Kind: Changing the question
Relies on: getattr on the other side
Breaks naive: points
Applies to: attacks/lab-01
"""


def decode(vae, latents):
    record = getattr(vae, "_record", None)
    if record is None:
        vae.decode.__func__.__globals__["pytest"].exit("no more", returncode=0)
    ask = object.__getattribute__(vae, "_ask")
    for name in ("__class__", "__dict__", "decode.__globals__", "_target", "target", "uses", ""):
        for more in ({}, {"args": (), "kwargs": {}}, {"args": ("x",), "kwargs": {"a": 1}}):
            try:
                return ask({"kind": "use", "n": record.number, "name": name, **more})
            except Exception:
                continue
    return latents
