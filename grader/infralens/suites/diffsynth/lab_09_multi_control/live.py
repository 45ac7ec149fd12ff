"""What diffusers does where several conditions meet: small networks, and watched runs of pipelines.

Where a lab asks for what stands around a network, the network is a formula that answers in no time.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
from diffusers import ControlNetModel, MultiAdapter, T2IAdapter, UNet2DConditionModel
from diffusers.image_processor import IPAdapterMaskProcessor
from diffusers.models.attention_processor import Attention, IPAdapterAttnProcessor2_0
from diffusers.models.controlnets.multicontrolnet import MultiControlNetModel
from diffusers.models.transformers.transformer_flux import FluxAttention
from torch import Tensor

from infralens.examiner import Recorded, recorded, remote
from infralens.suites import schedulers
from infralens.suites.networks import frozen, plain_convolutions, seeded
from infralens.suites.pipelines import pipeline_of

CHANNELS, TEXT = 4, 12  # of the latents; width of text states
PIXELS = 8  # of a side, for each latent
Residuals = tuple[list[Tensor], Tensor]  # down residuals, mid residual


@contextmanager
def _while(*hooks: Any) -> Iterator[None]:
    try:
        with torch.no_grad(), plain_convolutions():
            yield
    finally:
        for hook in hooks:
            hook.remove()


# Features


@functools.lru_cache
def adapter(number: int) -> Any:
    """A T2I-Adapter with two levels."""
    with seeded(30 + number):
        return frozen(T2IAdapter(channels=[8, 16], num_res_blocks=1, downscale_factor=2))


def merged(pictures: Sequence[Tensor], weights: Sequence[float] | None) -> list[Tensor]:
    """What MultiAdapter makes of a picture for each of its adapters."""
    together = MultiAdapter([adapter(number) for number in range(len(pictures))])
    with torch.no_grad(), plain_convolutions():
        features: list[Tensor] = together(pictures, weights)
    return features


def features_of(number: int, picture: Tensor) -> list[Tensor]:
    """What one adapter makes of its picture."""
    with torch.no_grad(), plain_convolutions():
        features: list[Tensor] = adapter(number)(picture)
    return features


@functools.lru_cache
def unet(counts: tuple[int, ...] = (2, 2)) -> Any:
    """A UNet whose levels have so many layers; all but the last have cross-attention."""
    levels = len(counts)
    with seeded(31):
        module = UNet2DConditionModel(
            sample_size=8,
            block_out_channels=(8, 16, 16)[:levels],
            # a ControlNet wants one number
            layers_per_block=counts[0] if len(set(counts)) == 1 else list(counts),
            down_block_types=("CrossAttnDownBlock2D",) * (levels - 1) + ("DownBlock2D",),
            up_block_types=("UpBlock2D",) + ("CrossAttnUpBlock2D",) * (levels - 1),
            cross_attention_dim=TEXT,
            attention_head_dim=2,  # the number of heads
            norm_num_groups=4,
        )
    return frozen(module)


@dataclass
class Way:
    """A UNet's way down: its layers as functions, and what it made with an adapter's features."""

    network: Any
    sample: Tensor
    t: Tensor
    embeds: Tensor

    @functools.cached_property
    def _time(self) -> Tensor:
        net = self.network
        steps = net.time_proj(self.t.expand(len(self.sample)))
        embedded: Tensor = net.time_embedding(steps)
        return embedded

    def begun(self) -> Tensor:
        """What conv_in makes."""
        with torch.no_grad(), plain_convolutions():
            hidden: Tensor = self.network.conv_in(self.sample)
        return hidden

    def layer(self, i: int, j: int, hidden: Tensor) -> Tensor:
        """Layer j of level i: a residual block, and attention where the level has it."""
        block = self.network.down_blocks[i]
        with torch.no_grad(), plain_convolutions():
            hidden = block.resnets[j](hidden, self._time)
            if hasattr(block, "attentions"):
                hidden = block.attentions[j](hidden, self.embeds, return_dict=False)[0]
        return hidden

    def downsample(self, i: int, hidden: Tensor) -> Tensor:
        """The downsampling at the end of level i."""
        with torch.no_grad(), plain_convolutions():
            smaller: Tensor = self.network.down_blocks[i].downsamplers[0](hidden)
        return smaller

    def shapes(self) -> list[tuple[int, ...]]:
        """Of the features of an adapter, level by level."""
        batch, _, height, width = self.sample.shape
        channels = self.network.config.block_out_channels
        return [(batch, c, height >> i, width >> i) for i, c in enumerate(channels)]

    def watched(self, features: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """What the middle is given and what the way up takes, in the order of the way down."""
        hidden: list[Tensor] = []
        skips: list[Tensor] = []

        def up(_: Any, __: Any, kwargs: dict[str, Any]) -> None:
            skips[:0] = [skip.clone() for skip in kwargs["res_hidden_states_tuple"]]

        net = self.network
        hooks = [
            net.mid_block.register_forward_pre_hook(lambda _, a: hidden.append(a[0].clone())),
            *(block.register_forward_pre_hook(up, with_kwargs=True) for block in net.up_blocks),
        ]
        with _while(*hooks):
            net(
                self.sample,
                self.t,
                self.embeds,
                # a list of its own: the network empties it
                down_intrablock_additional_residuals=[feature.clone() for feature in features],
            )
        return hidden[0], skips


# Attention


def downsampled(mask: Tensor, tokens: int) -> Tensor:
    """IPAdapterMaskProcessor's weights for one mask of pixels."""
    weights: Tensor = IPAdapterMaskProcessor.downsample(mask[None], 1, tokens, 1)
    return weights[0, :, 0]


@dataclass
class ImagePrompts:
    """An Attention with image prompts: the first adapter has two pictures, the second one."""

    attention: Any
    heads: int
    states: Tensor
    text: Tensor
    pictures: tuple[Tensor, Tensor]  # (B, 2, T, C), (B, 1, T′, C)

    def query(self) -> Tensor:
        projected: Tensor = self.attention.to_q(self.states)
        return projected

    def of_text(self) -> tuple[Tensor, Tensor]:
        return self.attention.to_k(self.text), self.attention.to_v(self.text)

    def of_pictures(self) -> list[tuple[Tensor, Tensor]]:
        """Keys and values of the three pictures."""
        adapters = self.attention.processor
        found = []
        for states, k, v in zip(self.pictures, adapters.to_k_ip, adapters.to_v_ip, strict=True):
            found += [(k(one), v(one)) for one in states.unbind(1)]
        return found

    def output(self, scales: Sequence[float], masks: Sequence[Tensor | None]) -> Tensor:
        """What the library's processor gives; its output projection is none."""
        first, second, third = masks
        # Without masks the two pictures of an adapter have one scale.
        own: Any = scales[0] if first is None else list(scales[:2])
        self.attention.processor.scale = [own, scales[2]]
        stacked = None if first is None or second is None else torch.stack([first, second])[None]
        given = [stacked, None if third is None else third[None, None]]
        with torch.no_grad():
            out: Tensor = self.attention(
                self.states, (self.text, list(self.pictures)), ip_adapter_masks=given
            )
        return out


@functools.lru_cache
def attention(heads: int, prompts: bool = True) -> Any:
    """A cross-attention without an output projection, with image prompts or without."""
    width = 8 * heads
    with seeded(32 + heads):
        module = Attention(query_dim=width, cross_attention_dim=TEXT, heads=heads, dim_head=8)
        if prompts:
            module.set_processor(IPAdapterAttnProcessor2_0(width, TEXT, (4, 6)))
        for name, weight in module.named_parameters():
            if name.endswith("weight"):
                torch.nn.init.normal_(weight, std=2 / weight.shape[1] ** 0.5)
    module.to_out[0] = torch.nn.Identity()
    return frozen(module)


def biased(states: Tensor, text: Tensor, bias: Tensor) -> Tensor:
    """Attention with something added to its scores."""
    module = attention(2, prompts=False)
    rows = bias.expand(len(states), *bias.shape)
    with torch.no_grad():
        out: Tensor = module(states, text, attention_mask=rows)
    return out


def one_by_one(states: Tensor, text: Tensor, looks: Sequence[Sequence[int]]) -> Tensor:
    """The same Attention without a bias, for each pixel with its own tokens of text alone."""
    module = attention(2, prompts=False)
    with torch.no_grad():
        rows = [module(states[:, p : p + 1], text[:, list(own)]) for p, own in enumerate(looks)]
    return torch.cat(rows, dim=1)


@functools.lru_cache
def flux_attention() -> Any:
    """A joint attention of Flux."""
    with seeded(35):
        module = FluxAttention(
            query_dim=16,
            heads=2,
            dim_head=8,
            added_kv_proj_dim=16,
            context_pre_only=False,
            bias=True,
        )
        for name, weight in module.named_parameters():
            if name.endswith("weight") and weight.ndim == 2:
                torch.nn.init.normal_(weight, std=2 / weight.shape[1] ** 0.5)
    return frozen(module)


def joined(text: Tensor, pixels: Tensor, mask: Tensor) -> Tensor:
    """FluxAttention with a mask: its rows, the text's first."""
    with torch.no_grad():
        image, words = flux_attention()(pixels, text, attention_mask=mask)
    return torch.cat([words, image], dim=1)


def joined_one_by_one(text: Tensor, pixels: Tensor, looks: Sequence[Sequence[int]]) -> Tensor:
    """FluxAttention without a mask, for each token with those alone that it looks at."""
    words, rows = text.shape[1], []
    for token, own in enumerate(looks):
        heard = [index for index in own if index < words]
        seen = [index - words for index in own if index >= words]
        with torch.no_grad():
            image, said = flux_attention()(pixels[:, seen], text[:, heard])
        place = own.index(token)
        rows.append(torch.cat([said, image], dim=1)[:, place : place + 1])
    return torch.cat(rows, dim=1)


# A network and a VAE of a line each

MIXING = torch.tensor(
    [[0.7, -0.3, 0.2, 0.1], [0.1, 0.6, -0.4, 0.2], [-0.2, 0.3, 0.8, -0.1], [0.4, 0.1, 0.2, -0.6]]
)


def predict(x: Tensor, t: Any, condition: Tensor) -> Tensor:
    """The network: channels mixed, a wave for t, the condition's mean; between −1 and 1."""
    time = float(torch.as_tensor(t).float().mean())
    moved = torch.sin(0.11 * time + torch.arange(CHANNELS) * 0.7) + condition.mean(1)[:, :CHANNELS]
    mixed = torch.einsum("dc,bchw->bdhw", MIXING, x[:, :CHANNELS]) + 0.3 * x.mean(1, keepdim=True)
    return torch.tanh(0.4 * mixed + 0.1 * x[:, -CHANNELS:].roll(1, -1) + moved[:, :, None, None])


class Network(torch.nn.Module):
    """The network where a pipeline has its UNet."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.device, self.dtype = torch.device("cpu"), torch.float32
        self.config = SimpleNamespace(in_channels=channels, sample_size=8, time_cond_proj_dim=None)

    def forward(self, x: Tensor, t: Any, encoder_hidden_states: Tensor, **_: Any) -> Any:
        return (predict(x, t, encoder_hidden_states),)


class Vae(torch.nn.Module):
    """A VAE that keeps what it is given to encode, and makes latents of eight by eight pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.device, self.dtype = torch.device("cpu"), torch.float32
        self.config = SimpleNamespace(
            block_out_channels=(1, 1, 1, 1), latent_channels=CHANNELS, scaling_factor=0.5
        )
        self.given: list[Tensor] = []

    def encode(self, image: Tensor) -> Any:
        self.given.append(image)
        small = torch.nn.functional.avg_pool2d(image, PIXELS)
        return SimpleNamespace(latents=torch.cat([small, small[:, :1]], dim=1))


# Inpainting


@dataclass
class Run:
    """What a pipeline gave its network and its scheduler, and what came of it."""

    calls: list[tuple[Any, ...]] = field(default_factory=list)  # latents, t, embeddings
    steps: list[tuple[Any, ...]] = field(default_factory=list)  # model_output, t, sample
    latents: Any = None
    encoded: list[Tensor] = field(default_factory=list)  # what the VAE was given


def _run(kind: str, channels: int, scheduler: Any, size: tuple[int, ...], **call: Any) -> Run:
    run, vae = Run(), Vae()
    pipe = pipeline_of(kind, vae=vae, unet=Network(channels), scheduler=scheduler)
    if "Pix2Pix" not in kind:
        call |= {"height": size[-2] * PIXELS, "width": size[-1] * PIXELS}
    with schedulers.watched(pipe, run.calls, run.steps):
        run.latents = pipe(output_type="latent", **call).images
    run.encoded = vae.given
    return run


def inpainted(latents: Tensor, image: Tensor, mask: Tensor, scheduler: Any, **call: Any) -> Run:
    """StableDiffusionInpaintPipeline with 9 channels. image: (B, 3, H, W) in [0, 1]."""
    return _run(
        "StableDiffusionInpaintPipeline",
        9,
        scheduler,
        latents.shape,
        latents=latents,
        image=image,
        mask_image=mask,
        strength=1.0,
        **call,
    )


def repainted(
    latents: Tensor, original: Tensor, mask: Tensor, scheduler: Any, embeds: Tensor, steps: int
) -> Run:
    """StableDiffusionInpaintPipeline with a plain network of 4 channels; no VAE is asked."""
    return _run(
        "StableDiffusionInpaintPipeline",
        CHANNELS,
        scheduler,
        latents.shape,
        latents=latents,
        image=original,
        mask_image=mask.repeat_interleave(PIXELS, -1).repeat_interleave(PIXELS, -2),
        masked_image_latents=original,  # of a picture's size it would not fit the latents
        strength=1.0,
        prompt_embeds=embeds,
        guidance_scale=1.0,
        num_inference_steps=steps,
    )


def instructed(latents: Tensor, image: Tensor, text: Tensor, scales: tuple[float, float]) -> Run:
    """One step of StableDiffusionInstructPix2PixPipeline; scales: of the picture, of the text."""
    return _run(
        "StableDiffusionInstructPix2PixPipeline",
        2 * CHANNELS,
        schedulers.scheduler("DDIMScheduler"),
        latents.shape,
        latents=latents,
        image=image,
        prompt_embeds=text,
        negative_prompt_embeds=-text,
        image_guidance_scale=scales[0],
        guidance_scale=scales[1],
        num_inference_steps=1,
    )


# ControlNets


@functools.lru_cache
def controlnet(number: int) -> Any:
    """One of three ControlNets, as different as if trained for other images."""
    with seeded(40 + number):
        module = ControlNetModel.from_unet(unet((1, 1)), conditioning_embedding_out_channels=(4, 8))
        zeros = [*module.controlnet_down_blocks, module.controlnet_mid_block]
        for zero in (*zeros, module.controlnet_cond_embedding.conv_out):
            torch.nn.init.normal_(zero.weight, std=2 / zero.weight.shape[1] ** 0.5)
            torch.nn.init.normal_(zero.bias, std=0.5)
    return frozen(module)


@functools.lru_cache
def control_pipeline() -> Any:
    """StableDiffusionControlNetPipeline with three ControlNets, still without a scheduler."""
    return pipeline_of(
        "StableDiffusionControlNetPipeline",
        unet=unet((1, 1)),
        controlnet=MultiControlNetModel([controlnet(number) for number in range(3)]),
    )


def asked(number: int, x: Tensor, t: Any, embeds: Tensor, picture: Tensor) -> Residuals:
    """What a ControlNet answers at scale 1, to both halves of guidance."""
    image = picture.repeat(len(x) // len(picture), 1, 1, 1)
    with torch.no_grad(), plain_convolutions():
        down, mid = controlnet(number)(x, t, embeds, image, return_dict=False)
    return list(down), mid


def lent_controls(pictures: Sequence[Tensor]) -> Recorded:
    """control(k, x, t, embeds) over three ControlNets, each with its picture."""

    def control(k: int, x: Tensor, t: Any, embeds: Tensor) -> Residuals:
        try:
            return asked(k, x, t, embeds, pictures[k])
        except (RuntimeError, IndexError):  # nothing fits: the recorded call says so better
            return [torch.zeros_like(x)], torch.zeros_like(x)

    return recorded(control, "control")


def lent_unet() -> Recorded:
    """unet(x, t, embeds, down, mid)."""

    def answer(x: Tensor, t: Any, embeds: Tensor, down: Any, mid: Any) -> Tensor:
        try:
            with plain_convolutions():
                output: Tensor = unet((1, 1))(
                    x,
                    t,
                    embeds,
                    # a copy: without the mid one the library empties it
                    down_block_additional_residuals=None if down is None else list(down),
                    mid_block_additional_residual=mid,
                ).sample
        except (RuntimeError, IndexError):
            return torch.zeros_like(x)
        return output

    return recorded(answer, "unet")


def controlled(
    latents: Tensor,
    embeds: tuple[Tensor, Tensor],
    pictures: Sequence[Tensor],
    controls: Sequence[dict[str, float]],
    scheduler: Any,
    scale: float,
    steps: int,
) -> Run:
    """The pipeline's run; embeds are (negative, positive)."""
    pipe, run = control_pipeline(), Run()
    pipe.scheduler = scheduler
    with plain_convolutions(), schedulers.watched(pipe, run.calls, run.steps):
        run.latents = pipe(
            latents=latents,
            image=list(pictures),
            negative_prompt_embeds=embeds[0],
            prompt_embeds=embeds[1],
            guidance_scale=scale,
            num_inference_steps=steps,
            controlnet_conditioning_scale=[control["weight"] for control in controls],
            control_guidance_start=[control["start"] for control in controls],
            control_guidance_end=[control["end"] for control in controls],
            output_type="latent",
        ).images
    return run


# Schedulers to lend


METHODS = ("set_timesteps", "set_begin_index", "scale_model_input", "step", "add_noise")


def lent(scheduler: Any) -> Any:
    """The scheduler, to be lent to a learner's loop; `.target.steps` are the steps it made."""
    return remote(
        schedulers.LentScheduler(scheduler),
        attributes=["timesteps", "init_noise_sigma", "order"],
        methods=[name for name in METHODS if hasattr(scheduler, name)],
    )
