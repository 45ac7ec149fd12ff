"""ControlNets and UNets small enough to run inside a check, and watched runs of the pipeline.

Two pairs of networks: tiny ones with random weights, and the trained ones that the kit ships. A
fresh ControlNet answers with zeros, so the zero convolutions of the tiny ones are made random, and
the last convolution of their image path as well.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from diffusers import ControlNetModel, DDIMScheduler, UNet2DConditionModel
from torch import Tensor

from infralens import shapes
from infralens.examiner import Draw
from infralens.suites.networks import frozen, plain_convolutions, seeded
from infralens.suites.pipelines import pipeline_of

LATENT_CHANNELS = 4

Residuals = tuple[list[Tensor], Tensor]  # down residuals, mid residual


# Networks


@functools.lru_cache
def tiny_unet(device: str = "cpu") -> Any:
    """UNet2DConditionModel with four skips and one level of cross-attention."""
    with seeded(9):
        module = UNet2DConditionModel(
            sample_size=8,
            block_out_channels=(16, 32),
            layers_per_block=1,
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
            cross_attention_dim=24,
            attention_head_dim=4,  # the number of heads
            norm_num_groups=8,
        )
    return frozen(module, device)


def new_controlnet(device: str = "cpu") -> Any:
    """ControlNetModel.from_unet as it comes: its zero convolutions are zero."""
    with seeded(10):
        module = ControlNetModel.from_unet(tiny_unet(), conditioning_embedding_out_channels=(8, 16))
    return frozen(module, device)


@functools.lru_cache
def fresh_controlnet(device: str = "cpu") -> Any:
    """One to be given zero convolutions by a check, again and again."""
    return new_controlnet(device)


@functools.lru_cache
def narrow_controlnet(device: str = "cpu") -> Any:
    """One with few channels, in its middle a single one; its zero convolutions are zero."""
    with seeded(11):
        module = ControlNetModel(
            down_block_types=("DownBlock2D", "DownBlock2D"),
            mid_block_type="UNetMidBlock2D",
            block_out_channels=(4, 1),
            layers_per_block=1,
            norm_num_groups=1,
            conditioning_embedding_out_channels=(8, 16),
        )
    return frozen(module, device)


@functools.lru_cache
def tiny_controlnet(number: int = 0, device: str = "cpu") -> Any:
    """One of three ControlNets for `tiny_unet`, as different as if trained for other images."""
    with seeded(20 + number):
        module = ControlNetModel.from_unet(tiny_unet(), conditioning_embedding_out_channels=(8, 16))
        for zero in (*zero_convs(module), module.controlnet_cond_embedding.conv_out):
            torch.nn.init.normal_(zero.weight, std=2 / zero.weight.shape[1] ** 0.5)
            torch.nn.init.normal_(zero.bias, std=0.5)
    return frozen(module, device)


@functools.lru_cache
def shipped_unet(device: str = "cpu") -> Any:
    """The trained UNet of the shapes pipeline."""
    module = UNet2DConditionModel.from_pretrained(
        shapes.FOLDER, subfolder="unet", local_files_only=True
    )
    return frozen(module, device)


@functools.lru_cache
def shipped_controlnet(device: str = "cpu") -> Any:
    """The trained ControlNet of the shapes pipeline, which follows edge maps."""
    module = ControlNetModel.from_pretrained(shapes.CONTROLNET_FOLDER, local_files_only=True)
    return frozen(module, device)


class Pair(NamedTuple):
    """A UNet and a ControlNet for it."""

    unet: Any
    controlnet: Any

    @property
    def pixels_per_latent(self) -> int:
        channels = self.controlnet.config.conditioning_embedding_out_channels
        return int(2 ** (len(channels) - 1))


def pair(name: str, device: str = "cpu") -> Pair:
    """The "tiny" or the "shipped" networks."""
    if name == "shipped":
        return Pair(shipped_unet(device), shipped_controlnet(device))
    return Pair(tiny_unet(device), tiny_controlnet(0, device))


def zero_convs(controlnet: Any) -> list[Any]:
    """The zero convolutions, the middle block's last."""
    return [*controlnet.controlnet_down_blocks, controlnet.controlnet_mid_block]


# Inputs


class Inputs(NamedTuple):
    """What a UNet and a ControlNet read."""

    latents: Tensor
    t: Tensor
    embeds: Tensor
    image: Tensor


def draw_inputs(draw: Draw, nets: Pair, batch: int, height: int, width: int) -> Inputs:
    """Inputs for these networks; height and width are the latents'."""
    factor = nets.pixels_per_latent
    return Inputs(
        draw.latents(batch, LATENT_CHANNELS, height, width),
        torch.tensor(draw.integer(40, 90)),
        draw.latents(batch, draw.choice([5, 7, 11]), nets.unet.config.cross_attention_dim),
        draw.tensor(batch, 3, height * factor, width * factor),
    )


def zero_inputs(nets: Pair) -> Inputs:
    """Inputs without content, for questions about structure."""
    side = 4 * nets.pixels_per_latent
    return Inputs(
        torch.zeros(1, LATENT_CHANNELS, 4, 4),
        torch.tensor(50),
        torch.zeros(1, 5, nets.unet.config.cross_attention_dim),
        torch.zeros(1, 3, side, side),
    )


def asked(controlnet: Any, inputs: Inputs, scale: Any = 1.0, guess: bool = False) -> Residuals:
    """What a ControlNet (or several in one) answers: down residuals and mid residual."""
    with torch.no_grad(), plain_convolutions():
        down, mid = controlnet(
            inputs.latents,
            inputs.t,
            inputs.embeds,
            inputs.image,
            scale,
            guess_mode=guess,
            return_dict=False,
        )
    return list(down), mid


# What happens inside


@contextmanager
def _watching(*hooks: Any) -> Iterator[None]:
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def features_of(controlnet: Any, inputs: Inputs) -> list[Tensor]:
    """What the zero convolutions of a ControlNet are given, the middle block's last."""
    features: list[Tensor] = []
    hooks = [
        conv.register_forward_pre_hook(lambda _, args: features.append(args[0].clone()))
        for conv in zero_convs(controlnet)
    ]
    with _watching(*hooks):
        asked(controlnet, inputs)
    return features


@dataclass
class Way:
    """What a UNet does between its way down and its way up."""

    skips: list[Tensor] = field(default_factory=list)  # made on the way down
    hidden: Any = None  # what the middle block is given
    mid_block: Any = None  # the middle block, with its other arguments
    taken: list[Tensor] = field(default_factory=list)  # the skips that the way up is given
    up: Any = None  # what its first block is given besides


def way_through(
    unet: Any, inputs: Inputs, down: Sequence[Tensor] | None, mid: Tensor | None
) -> Way:
    """Watch UNet2DConditionModel with these residuals."""
    way = Way()

    def at_conv_in(_: Any, __: Any, output: Tensor) -> None:
        way.skips.append(output.clone())

    def at_down_block(_: Any, __: Any, output: tuple[Tensor, tuple[Tensor, ...]]) -> None:
        way.skips.extend(skip.clone() for skip in output[1])

    def at_mid_block(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        way.hidden = args[0].clone()
        way.mid_block = plain_convolutions()(lambda hidden: module(hidden, *args[1:], **kwargs))

    def at_up_block(_: Any, __: Any, kwargs: dict[str, Any]) -> None:
        if way.up is None:
            way.up = kwargs["hidden_states"].clone()
        way.taken[:0] = [skip.clone() for skip in kwargs["res_hidden_states_tuple"]]

    hooks = [
        unet.conv_in.register_forward_hook(at_conv_in),
        *(block.register_forward_hook(at_down_block) for block in unet.down_blocks),
        unet.mid_block.register_forward_pre_hook(at_mid_block, with_kwargs=True),
        *(
            block.register_forward_pre_hook(at_up_block, with_kwargs=True)
            for block in unet.up_blocks
        ),
    ]
    with _watching(*hooks), torch.no_grad(), plain_convolutions():
        unet(
            inputs.latents,
            inputs.t,
            inputs.embeds,
            down_block_additional_residuals=down,
            mid_block_additional_residual=mid,
        )
    return way


# Networks to lend


class Lent:
    """A network lent to the learner under diffusers' own argument names.

    `calls` keeps the arguments of each call in the order of the function's parameters, with
    defaults for what was not given.
    """

    def __init__(self, answer: Callable[..., Any]) -> None:
        self.answer, self.__name__ = answer, answer.__name__
        self.signature = inspect.signature(answer)
        self.calls: list[tuple[Any, ...]] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = self.signature.bind(*args, **kwargs)
        given.apply_defaults()
        self.calls.append(tuple(given.arguments.values()))
        with torch.no_grad():
            return self.answer(*given.args, **given.kwargs)


def _lent_controlnet(answer: Callable[[Inputs, float, bool], Residuals]) -> Lent:
    def controlnet(
        sample: Tensor,
        timestep: Any,
        encoder_hidden_states: Tensor,
        controlnet_cond: Tensor,
        conditioning_scale: float = 1.0,
        *,
        guess_mode: bool = False,
    ) -> Residuals:
        seen = Inputs(sample, timestep, encoder_hidden_states, controlnet_cond)
        return answer(seen, conditioning_scale, guess_mode)

    return Lent(controlnet)


def lent_controlnet(module: Any) -> Lent:
    """A ControlNet that gives (list of down residuals, mid residual)."""

    def answer(inputs: Inputs, scale: float, guess: bool) -> Residuals:
        try:
            return asked(module, inputs, scale, guess)
        except (RuntimeError, IndexError):  # nothing fits: the recorded call says so better
            return [torch.zeros_like(inputs.latents)], torch.zeros_like(inputs.latents)

    return _lent_controlnet(answer)


def answering(down: list[Tensor], mid: Tensor) -> Lent:
    """A ControlNet that gives these residuals, whatever it is asked."""
    return _lent_controlnet(lambda *_: ([residual.clone() for residual in down], mid.clone()))


def _lent_unet(answer: Callable[..., Tensor]) -> Lent:
    def unet(
        sample: Tensor,
        timestep: Any,
        encoder_hidden_states: Tensor,
        *,
        down_block_additional_residuals: Any = None,
        mid_block_additional_residual: Any = None,
    ) -> Tensor:
        down, mid = down_block_additional_residuals, mid_block_additional_residual
        return answer(sample, timestep, encoder_hidden_states, down, mid)

    return Lent(unet)


def lent_unet(module: Any) -> Lent:
    """A UNet that gives a tensor."""

    def answer(sample: Tensor, timestep: Any, embeds: Tensor, down: Any, mid: Any) -> Tensor:
        try:
            with plain_convolutions():
                output: Tensor = module(
                    sample,
                    timestep,
                    embeds,
                    # a copy: the library takes residuals out of a list that comes without the mid
                    down_block_additional_residuals=None if down is None else list(down),
                    mid_block_additional_residual=mid,
                ).sample
        except (RuntimeError, IndexError):  # nothing fits: the recorded call says so better
            return torch.zeros_like(sample)
        return output

    return _lent_unet(answer)


def idle_unet() -> Lent:
    """A UNet that gives the sample back."""
    return _lent_unet(lambda sample, *_: sample)


# The pipeline


@dataclass
class Run:
    """What StableDiffusionControlNetPipeline asked its networks, in order, and what they said."""

    controlnet_calls: list[tuple[Any, ...]] = field(default_factory=list)
    unet_calls: list[tuple[Any, ...]] = field(default_factory=list)
    answers: list[Tensor] = field(default_factory=list)  # of the UNet


CONTROLNET_CALL = (
    "encoder_hidden_states",
    "controlnet_cond",
    "conditioning_scale",
    "guess_mode",
)
UNET_CALL = (
    "encoder_hidden_states",
    "down_block_additional_residuals",
    "mid_block_additional_residual",
)


@functools.lru_cache(maxsize=8)  # there are three pairs; building one takes as long as its run
def pipeline(nets: Pair) -> Any:
    """StableDiffusionControlNetPipeline of these networks, still without a scheduler."""
    kind = "StableDiffusionControlNetPipeline"
    return pipeline_of(kind, unet=nets.unet, controlnet=nets.controlnet)


def run_of(nets: Pair, scheduler: Any, *, prompts: Tensor, negatives: Tensor, **call: Any) -> Run:
    """Run the pipeline with guidance, from latents to latents, and watch its two networks."""
    pipe = pipeline(nets)
    pipe.scheduler = scheduler
    run = Run()

    def at_controlnet(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        run.controlnet_calls.append((*args, *(kwargs[name] for name in CONTROLNET_CALL)))

    def at_unet(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        run.unet_calls.append((*args, *(kwargs[name] for name in UNET_CALL)))

    hooks = [
        nets.controlnet.register_forward_pre_hook(at_controlnet, with_kwargs=True),
        nets.unet.register_forward_pre_hook(at_unet, with_kwargs=True),
        nets.unet.register_forward_hook(lambda _, __, output: run.answers.append(output[0])),
    ]
    with _watching(*hooks), plain_convolutions():
        pipe(
            prompt_embeds=prompts,
            negative_prompt_embeds=negatives,
            guidance_scale=7.5,
            output_type="latent",
            **call,
        )
    return run


def one_turn(t: Tensor) -> Any:
    """A DDIM scheduler with a single turn, at t."""
    return DDIMScheduler(
        num_train_timesteps=int(t) + 1, timestep_spacing="trailing", clip_sample=False
    )


class _NoUNet(torch.nn.Module):
    """Answers nothing, at once: for runs in which only the turns are counted."""

    def __init__(self) -> None:
        super().__init__()
        self.device, self.dtype = torch.device("cpu"), torch.float32
        config = {"in_channels": LATENT_CHANNELS, "time_cond_proj_dim": None}
        self.config = type("Config", (), config)()

    def forward(self, sample: Tensor, *_: Any, **__: Any) -> tuple[Tensor]:
        return (torch.zeros_like(sample),)


@functools.lru_cache
def idle_pair() -> Pair:
    """Two networks that do nothing, for a pipeline whose turns are counted."""
    controlnet = new_controlnet()
    controlnet.forward = lambda *_, **__: ([], torch.zeros(()))
    return Pair(_NoUNet(), controlnet)


def scales_of_a_run(scheduler: Any, steps: int, start: float, end: float) -> list[float]:
    """The conditioning scale that the pipeline tells its ControlNet at each turn, out of 1.0."""
    embeds = torch.zeros(1, 2, 8)
    run = run_of(
        idle_pair(),
        scheduler,
        prompts=embeds,
        negatives=embeds,
        latents=torch.zeros(1, LATENT_CHANNELS, 1, 1),
        image=torch.zeros(1, 3, 8, 8),
        num_inference_steps=steps,
        control_guidance_start=start,
        control_guidance_end=end,
        controlnet_conditioning_scale=1.0,
    )
    place = 2 + CONTROLNET_CALL.index("conditioning_scale")
    return [call[place] for call in run.controlnet_calls]
