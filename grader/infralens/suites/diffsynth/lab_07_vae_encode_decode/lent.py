"""The VAE that a learner's code is given, which does what it is asked and writes it down."""

from __future__ import annotations

from typing import Any

import torch
from diffusers.models.autoencoders.autoencoder_kl_wan import unpatchify
from torch import Tensor

from infralens.examiner import Namespace, remote
from infralens.suites.diffsynth.lab_07_vae_encode_decode import live

CLEARED, HANDED = "clear_cache()", "sink(frames)"


def told(frames: int, first: bool = False) -> str:
    """A call of the decoder, as it is written down."""
    return f"decoder({frames} latent frame{'s' * (frames != 1)}, first={first})"


class Lent:
    """A VAE of Wan that has another clip behind it.

    What it cannot do with the frames it is given comes back as zeros: how it was called is judged
    before.
    """

    def __init__(self, vae: Any, past: Tensor | None = None) -> None:
        self.vae, self.stream = vae, live.Streamed(vae)
        self.ratio: int = vae.config.scale_factor_temporal
        self.config = Namespace({"scale_factor_temporal": self.ratio})
        self.lengths: list[int] = []
        self.events: list[str] = []
        if past is not None:
            self.stream.encode(past[:, :, :1])

    def lend(self) -> Any:
        methods = ["clear_cache", "encoder", "quant_conv", "post_quant_conv", "decoder"]
        return remote(self, attributes=["config"], methods=methods)

    def clear_cache(self) -> None:
        self.stream.forget()
        self.events.append(CLEARED)

    def encoder(self, frames: Tensor) -> Tensor:
        self.lengths.append(frames.shape[2])
        try:
            return self.stream.encode(frames)
        except RuntimeError:
            batch, _, _, height, width = frames.shape
            side = self.ratio  # these networks halve space as often as time
            return frames.new_zeros(batch, 8, 1, height // side, width // side)

    def quant_conv(self, moments: Tensor) -> Tensor:
        found: Tensor = self.vae.quant_conv(moments)
        return found


class LentDecoder(Lent):
    """One whose decoder computes in float64 and gives pictures that can be rounded in one way."""

    def __init__(self, vae: Any, past: Tensor) -> None:
        super().__init__(vae)
        self.stream.decode(past[:, :, :1].double(), True)

    def post_quant_conv(self, latents: Tensor) -> Tensor:
        found: Tensor = self.vae.post_quant_conv(latents.double()).float()
        return found

    def decoder(self, latents: Tensor, first: bool = False) -> Tensor:
        self.events.append(told(latents.shape[2], bool(first)))
        try:
            with live.settling(self.vae):
                frames = self.stream.decode(latents.double(), bool(first))
        except RuntimeError:
            batch, _, _, height, width = latents.shape
            side = self.ratio * (self.vae.config.patch_size or 1)
            return torch.zeros(batch, 3, 1, height * side, width * side)
        pictures: Tensor = unpatchify(frames, self.vae.config.patch_size or 1).float()
        return pictures

    def told(self) -> list[str]:
        """The order of events; forgetting twice at the beginning, or at the end, is nothing."""
        events = list(self.events)
        while events and events[-1] == CLEARED:
            events.pop()
        while events[:2] == [CLEARED, CLEARED]:
            events.pop(0)
        return events
