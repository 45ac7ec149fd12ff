"""Lab 09: the learner's residuals against ControlNets, UNets and their pipeline."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import (
    ControlNetModel,
    DDIMScheduler,
    HeunDiscreteScheduler,
    MultiControlNetModel,
)
from diffusers.image_processor import VaeImageProcessor
from torch import Tensor

from infralens.examiner import (
    Draw,
    assert_agrees,
    assert_calls,
    assert_equals,
    assert_matches,
    assert_property,
    assert_raises,
    comparable,
    fetch,
    given,
    keep,
    library_function,
    recorded,
    todo,
    unpack,
)
from infralens.suites.diffusers.lab_09_controlnet_conditioning_reading import nets
from infralens.suites.networks import plain_convolutions

BESIDE = Path(__file__).with_name("given.py").read_text(encoding="utf-8")
CONTROLNET_CALL = (
    "sample",
    "timestep",
    "encoder_hidden_states",
    "controlnet_cond",
    "conditioning_scale",
)
UNET_CALL = ("sample", "timestep", "encoder_hidden_states")


def draw_scale(draw: Draw, size: str) -> float:
    """A conditioning scale below or above 1, and near neither 1 nor 0."""
    return draw.uniform(0.3, 0.7) if size == "small" else draw.uniform(1.4, 2.2)


def nth(tensors: Callable[[], Sequence[Tensor]], number: int) -> Callable[[], Tensor]:
    """One of the tensors, when it is asked for."""
    return lambda: tensors()[number]


def how_many(tensors: Any) -> Any:
    """The length of a list or tuple; of anything else what it is."""
    return len(tensors) if isinstance(tensors, list | tuple) else f"a {type(tensors).__name__}"


def assert_residuals(
    answer: Any, *, library: Callable[[], Sequence[Tensor]], truth: Callable[[], Sequence[Tensor]]
) -> None:
    """A pair (down residuals, mid residual) that matches; both references end with the mid one."""
    down, mid = unpack(answer, "down residuals", "mid residual")
    count = how_many(down)
    assert_equals(count, library=lambda: len(library()) - 1, what="the number of down residuals")
    for number, residual in enumerate([*down, mid]):
        assert_matches(
            residual,
            library=nth(library, number),
            truth=nth(truth, number),
            what="the mid residual" if number == count else f"down residual {number}",
        )


# 9.1


def draw_pictures(draw: Draw, *shape: int) -> Any:
    """Random pixels, none of them white: so the largest one is no substitute for 255."""
    return draw.tensor(*shape, low=3, high=240).cpu().to(torch.uint8).numpy()


def prepared(pictures: Any, batch: int, guidance: bool) -> Any:
    """StableDiffusionControlNetPipeline.prepare_image, given PIL images."""
    processor = VaeImageProcessor(vae_scale_factor=1, do_convert_rgb=True, do_normalize=False)
    prepare_image = library_function(
        "pipelines/controlnet/pipeline_controlnet.py",
        "StableDiffusionControlNetPipeline.prepare_image",
    )
    count, height, width, _ = pictures.shape
    return prepare_image(
        SimpleNamespace(control_image_processor=processor),
        processor.numpy_to_pil(pictures / 255),
        width,
        height,
        batch_size=batch,
        num_images_per_prompt=batch // count,
        device="cpu",
        dtype=torch.float32,
        do_classifier_free_guidance=guidance,
    )


def pixels_of(pictures: Any, batch: int, guidance: bool) -> Tensor:
    """The pixels in float64, row by row."""
    share = batch // len(pictures)
    rows = [pictures[row // share] for row in range(batch)] * (2 if guidance else 1)
    return torch.from_numpy(np.stack(rows).transpose(0, 3, 1, 2)).double() / 255


@todo("9.1")
@pytest.mark.parametrize("guidance", [False, True], ids=["plain", "guidance"])
@pytest.mark.parametrize(
    "kind",
    [
        *("one picture", "one in a batch", "several", "one for each", "alone", "nearly black"),
        *("three high", "three high in a batch", "three wide"),
    ],
)
def test_pictures_become_the_images_a_controlnet_is_given(
    candidate: Any, draw: Draw, kind: str, guidance: bool
) -> None:
    """control_image is prepare_image: channels first, in [0, 1], a row for each latent."""
    height, width = draw.sample([6, 7, 9, 11], 2)
    if kind.startswith("three high"):  # as many as channels, and yet rows
        height = 3
    if kind == "three wide":
        width = 3
    count, share = (draw.integer(2, 3), draw.integer(2, 3)) if kind == "several" else (1, 3)
    if kind == "one for each":
        count, share = draw.integer(2, 4), 1
    if kind == "alone":
        share = 1
    single = kind in ("one picture", "alone", "three high", "three wide")
    shape = (height, width, 3) if single else (count, height, width, 3)
    pictures, batch = draw_pictures(draw, *shape), count * share
    if kind == "nearly black":
        pictures = pictures % 2  # its largest number is 1, and black is not white
    stack = pictures.reshape(-1, height, width, 3)
    assert_matches(
        candidate.control_image(pictures, batch, guidance),
        library=lambda: prepared(stack, batch, guidance),
        truth=lambda: pixels_of(stack, batch, guidance),
        what=f"the control image, pictures: {count}, latents: {batch}",
    )


@todo("9.1")
@pytest.mark.parametrize("guidance", [False, True], ids=["plain", "guidance"])
@pytest.mark.parametrize("kind", ["more latents", "fewer latents", "half of them"])
def test_a_batch_that_cannot_be_shared_is_refused(
    candidate: Any, draw: Draw, kind: str, guidance: bool
) -> None:
    """The number of latents is a multiple of the number of pictures."""
    count = draw.integer(3, 4)
    batch = count * draw.integer(1, 2) + draw.integer(1, count - 1)
    if kind == "fewer latents":
        batch = draw.integer(1, count - 1)
    if kind == "half of them":  # the rows under guidance would be a multiple
        count = draw.choice([2, 4])
        batch = count // 2 * draw.choice([1, 3, 5])
    pictures = draw_pictures(draw, count, 4, 6, 3)
    assert_raises(
        lambda: candidate.control_image(pictures, batch, guidance),
        "ValueError",
        what=f"{count} pictures for {batch} latents",
    )


# 9.2


def draw_zero_convs(draw: Draw, controlnet: Any) -> list[tuple[Tensor, Tensor]]:
    """New weights for the zero convolutions of this ControlNet, which gets them too."""
    pairs = []
    for conv in nets.zero_convs(controlnet):
        channels = conv.weight.shape[0]
        weight = draw.latents(channels, channels, 1, 1) / channels**0.5
        bias = draw.latents(channels)
        conv.load_state_dict({"weight": weight, "bias": bias})
        pairs.append((weight, bias))
    return pairs


def behind(feature: Tensor, pair: tuple[Tensor, Tensor], scale: float) -> Tensor:
    """A feature behind its zero convolution, in float64."""
    weight, bias = (numbers.double() for numbers in pair)
    mixed = torch.einsum("oi,bihw->bohw", weight[:, :, 0, 0], feature.double())
    return scale * (mixed + bias[:, None, None])


def shortened(parts: list[Any], first: int | None) -> list[Any]:
    """The first parts and the middle block's, as a ControlNet with fewer skips would have them."""
    return [*parts[:-1][:first], parts[-1]]


def assert_behind_zero_convs(
    candidate: Any,
    controlnet: Any,
    inputs: nets.Inputs,
    pairs: list[tuple[Tensor, Tensor]],
    scale: float,
    first: int | None = None,
) -> None:
    """zero_conv_residuals gives what ControlNetModel makes of its own features.

    With `first`, of so many of them and the middle block's.
    """
    features = nets.features_of(controlnet, inputs)
    features, pairs = shortened(features, first), shortened(pairs, first)
    answer = candidate.zero_conv_residuals(features, pairs, scale)

    @functools.cache
    def library() -> list[Tensor]:
        down, mid = nets.asked(controlnet, inputs, scale)
        return shortened([*down, mid], first)

    assert_residuals(
        answer,
        library=library,
        truth=lambda: [
            behind(feature, pair, scale) for feature, pair in zip(features, pairs, strict=True)
        ],
    )


def weights_of(controlnet: Any) -> list[tuple[Tensor, Tensor]]:
    """The weights of its zero convolutions, as they are."""
    convs = nets.zero_convs(controlnet)
    return [(conv.weight.detach().clone(), conv.bias.detach().clone()) for conv in convs]


@todo("9.2", guards="all the features of a network, in their order")
@pytest.mark.parametrize(
    "case", ["small scale", "batch is width", "one sample, one channel", "trained network"]
)
def test_features_leave_through_zero_convolutions(
    candidate: Any, draw: Draw, device: str, case: str
) -> None:
    """Every feature of a ControlNetModel goes through its own 1×1 convolution and is scaled."""
    scale = draw_scale(draw, "small" if case == "small scale" else "large")
    pair = nets.Pair(nets.tiny_unet(device), nets.fresh_controlnet(device))
    if case == "trained network":
        pair = nets.pair("shipped", device)
        weights = weights_of(pair.controlnet)
    else:
        if case == "one sample, one channel":
            pair = pair._replace(controlnet=nets.narrow_controlnet(device))
        weights = draw_zero_convs(draw, pair.controlnet)
    batch, width = (4, 4) if case == "batch is width" else (draw.integer(2, 3), 10)
    if case == "one sample, one channel":
        batch = 1
    inputs = nets.draw_inputs(draw, pair, batch, 6, width)
    assert_behind_zero_convs(candidate, pair.controlnet, inputs, weights, scale)


@todo("9.2", guards="any number of features, not the four of these networks")
def test_the_last_feature_is_the_middles(candidate: Any, draw: Draw, device: str) -> None:
    """However many features there are, the last belongs to the middle block."""
    controlnet = nets.fresh_controlnet(device)
    pairs = draw_zero_convs(draw, controlnet)
    inputs = nets.draw_inputs(draw, nets.Pair(nets.tiny_unet(device), controlnet), 2, 6, 10)
    for first in (1, 2):
        scale = draw_scale(draw, "large")
        assert_behind_zero_convs(candidate, controlnet, inputs, pairs, scale, first)


@todo("9.2", guards="scale 0, and scale 1, which changes nothing")
@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_at_scale_zero_nothing_is_left(
    candidate: Any, draw: Draw, device: str, scale: float
) -> None:
    """At scale 0 all residuals are zero, at scale 1 they are as the convolutions give them."""
    controlnet = nets.fresh_controlnet(device)
    pairs = draw_zero_convs(draw, controlnet)
    inputs = nets.draw_inputs(draw, nets.Pair(nets.tiny_unet(device), controlnet), 2, 6, 10)
    assert_behind_zero_convs(candidate, controlnet, inputs, pairs, scale)


@todo("9.2", guards="the zero in zero convolution")
def test_a_fresh_controlnet_changes_nothing(candidate: Any, draw: Draw, device: str) -> None:
    """As ControlNetModel.from_unet makes them, the zero convolutions give zeros."""
    controlnet = nets.new_controlnet(device)
    inputs = nets.draw_inputs(draw, nets.Pair(nets.tiny_unet(device), controlnet), 2, 6, 10)
    scale = draw_scale(draw, "large")
    assert_behind_zero_convs(candidate, controlnet, inputs, weights_of(controlnet), scale)


# 9.3


class Passage:
    """A UNet between its two ways, with residuals drawn for it, or without control."""

    def __init__(
        self,
        draw: Draw,
        device: str,
        networks: str = "tiny",
        control: bool = True,
        sequence: type = list,
    ) -> None:
        pair = nets.pair(networks, device)
        self.unet, self.inputs = pair.unet, nets.draw_inputs(draw, pair, 2, 4, 6)
        self.way = nets.way_through(self.unet, self.inputs, None, None)
        self.mid_block = recorded(self.way.mid_block, "mid_block")
        self.sequence = sequence
        self.down: Any = None
        self.mid: Any = None
        if control:
            self.down = [draw.latents(*skip.shape) for skip in self.way.skips]
            self.mid = draw.latents(*self.way.up.shape)

    @property
    def arguments(self) -> tuple[Any, ...]:
        skips = self.sequence(self.way.skips)
        down = self.down and self.sequence(self.down)
        return skips, self.way.hidden, self.mid_block, down, self.mid

    @functools.cached_property
    def library(self) -> nets.Way:
        """UNet2DConditionModel with these residuals, or with none."""
        return nets.way_through(self.unet, self.inputs, self.down, self.mid)

    def truth(self) -> list[Tensor]:
        tensors = [*self.way.skips, self.way.mid_block(self.way.hidden)]
        residuals = [*self.down, self.mid] if self.down else [torch.zeros_like(x) for x in tensors]
        pairs = zip(tensors, residuals, strict=True)
        return [plain.double() + residual.double() for plain, residual in pairs]

    def assert_passed(self, answer: Any) -> None:
        assert_residuals(
            answer,
            library=lambda: [*self.library.taken, self.library.up],
            truth=self.truth,
        )


CONTROL = pytest.mark.parametrize("control", [True, False], ids=["control", "no control"])


@todo("9.3")
@pytest.mark.parametrize(("networks", "sequence"), [("tiny", list), ("shipped", tuple)])
def test_skips_and_middle_get_their_residuals(
    candidate: Any, draw: Draw, device: str, networks: str, sequence: type
) -> None:
    """The way up of UNet2DConditionModel starts from these skips and this tensor."""
    passage = Passage(draw, device, networks, sequence=sequence)
    passage.assert_passed(candidate.add_residuals(*passage.arguments))


@todo("9.3")
@CONTROL
def test_the_middle_block_is_asked_once(
    candidate: Any, draw: Draw, device: str, control: bool
) -> None:
    """The middle block sees what it sees in UNet2DConditionModel, where nothing is added before."""
    passage = Passage(draw, device, control=control)
    candidate.add_residuals(*passage.arguments)
    assert_calls(
        passage.mid_block.calls,
        library=lambda: [(passage.library.hidden,)],
        names=("hidden",),
        of="mid_block",
    )


def assert_unchanged(after: Any, before: Any, name: str) -> None:
    """A tensor, or a list of them, is exactly what it was."""
    if isinstance(before, Tensor):
        assert_equals(after, value=before, what=f"`{name}` afterwards")
        return
    assert_equals(how_many(after), value=len(before), what=f"the length of `{name}` afterwards")
    for number, tensor in enumerate(before):
        assert_equals(after[number], value=tensor, what=f"`{name}[{number}]` afterwards")


@todo("9.3")
@CONTROL
@pytest.mark.parametrize("block", ["the UNet's", "one that returns its input"])
def test_the_arguments_are_left_as_they_are(
    candidate: Any, draw: Draw, device: str, block: str, control: bool
) -> None:
    """Nothing is changed in place: lists and tensors are afterwards what they were before."""
    passage = Passage(draw, device, control=control)
    skips, hidden, mid_block, down, mid = passage.arguments
    if block != "the UNet's":
        mid_block = given(candidate, BESIDE).idle_block()
    before = {"skips": skips, "hidden": hidden}
    if control:
        before |= {"down_residuals": down, "mid_residual": mid}
    kept = {name: keep(candidate, value) for name, value in before.items()}
    down, mid = kept.get("down_residuals"), kept.get("mid_residual")
    candidate.add_residuals(kept["skips"], kept["hidden"], mid_block, down, mid)
    for name, value in before.items():
        assert_unchanged(fetch(kept[name]), value, name)


@todo("9.3")
@pytest.mark.parametrize(
    "kind", ["one missing", "one too many", "no mid", "no down", "empty", "empty and no mid"]
)
def test_residuals_that_do_not_fit_are_refused(candidate: Any, draw: Draw, kind: str) -> None:
    """One residual for each skip and one for the middle: UNet2DConditionModel does not look."""
    sides = [(6, 10), (6, 10), (3, 5)]
    skips, down = ([draw.latents(2, 4, *side) for side in sides] for _ in range(2))
    hidden, mid = draw.latents(2, 4, 3, 5), draw.latents(2, 4, 3, 5)
    mid_block = recorded(torch.tanh, "mid_block")
    residuals = {
        "one missing": (down[:-1], mid),
        "one too many": ([*down, down[-1]], mid),
        "no mid": (down, None),
        "no down": (None, mid),
        "empty": ([], mid),
        "empty and no mid": ([], None),
    }[kind]
    before = {"skips": skips, "hidden": hidden}
    before |= {"down_residuals": residuals[0], "mid_residual": residuals[1]}
    kept = {
        name: None if value is None else keep(candidate, value) for name, value in before.items()
    }
    assert_raises(
        lambda: candidate.add_residuals(
            *(kept["skips"], kept["hidden"], mid_block),
            *(kept["down_residuals"], kept["mid_residual"]),
        ),
        "ValueError",
        what=f"residuals with {kind}",
    )
    for name, handle in kept.items():
        if handle is not None:
            assert_unchanged(fetch(handle), before[name], name)


@todo("9.3", guards="what a UNet without control returns, and tuples")
def test_without_residuals_it_is_the_plain_unet(candidate: Any, draw: Draw, device: str) -> None:
    """Both residuals None: the skips, and what the middle block says."""
    passage = Passage(draw, device, control=False, sequence=tuple)
    passage.assert_passed(candidate.add_residuals(*passage.arguments))


# 9.4


def assert_keeps(
    candidate: Any, scheduler: Any, steps: int, windows: Sequence[tuple[float, float]]
) -> None:
    """controlnet_keep gives the scales that the pipeline tells its ControlNet, out of 1."""
    scheduler.set_timesteps(num_inference_steps=steps)
    n = len(scheduler.timesteps)
    for start, end in windows:
        answer = candidate.controlnet_keep(n, start, end)
        listed = isinstance(answer, list | tuple)
        assert_equals(
            [comparable(keeps) for keeps in answer] if listed else answer,
            library=functools.partial(nets.scales_of_a_run, scheduler, steps, start, end),
            what=f"{n} iterations, start {start}, end {end}",
        )


def on_the_edge(n: int) -> list[int]:
    """The iterations k whose fraction of n is one float however it is written: k / n, k·(1 / n).

    Elsewhere i < start·n and i / n < start may differ by a rounding, and both are right.
    """
    return [k for k in range(1, n) if k / n * n == k and k * (1 / n) == k / n]


def draw_window(draw: Draw, n: int, *, late: bool = False) -> tuple[float, float]:
    """Start early (or late) in an iteration of the first half, end late in one of the second.

    Early, rounding moves both, cutting to whole iterations moves the start; and the start is late
    enough in the run for n − 1 in place of n to move it too. Late, the middle lies before it.
    """
    first, last = draw.integer(math.ceil(0.3 * n), n // 2 - 1), draw.integer(n // 2 + 2, n - 1)
    begins = draw.uniform(0.6, 0.8) if late else draw.uniform(0.1, 0.25)
    start, end = first + begins, last + draw.uniform(0.55, 0.85)
    return round(start / n, 4), round(end / n, 4)


@todo("9.4", guards="windows as they are usually set, also for Heun")
@pytest.mark.parametrize("kind", ["DDIM", "Heun"])
def test_a_turn_counts_when_it_lies_whole_in_the_window(
    candidate: Any, draw: Draw, kind: str
) -> None:
    """The zeros and ones are the conditioning scales of StableDiffusionControlNetPipeline."""
    scheduler, steps = DDIMScheduler(clip_sample=False), draw.integer(12, 24)
    if kind == "Heun":  # two iterations a step, but one in the last
        scheduler, steps = HeunDiscreteScheduler(), draw.integer(7, 12)
    scheduler.set_timesteps(num_inference_steps=steps)
    n = len(scheduler.timesteps)
    # First one that begins with an iteration: cutting to whole iterations does not move that.
    edge = draw.choice([k for k in on_the_edge(n) if k < n // 2])
    late, *early = (draw_window(draw, n, late=late) for late in (True, False, False))
    assert_keeps(candidate, scheduler, steps, [(edge / n, late[1]), late, *early])


@todo("9.4")
def test_a_turn_that_begins_or_ends_with_the_window_counts(candidate: Any, draw: Draw) -> None:
    """What begins at start, or ends at end, counts in StableDiffusionControlNetPipeline."""
    steps = draw.choice([8, 16])  # the shares of such a run are exact
    firsts = draw.sample(range(1, steps - 2), 3)
    windows = [(k / steps, draw.integer(k + 2, steps - 1) / steps) for k in firsts]
    scheduler = DDIMScheduler(clip_sample=False)
    assert_keeps(candidate, scheduler, steps, [*windows, (0.0, 1.0)])
    n = draw.choice([n for n in range(20, 40) if n & (n - 1)])  # these shares are rounded
    begin, end = sorted(draw.sample(on_the_edge(n), 2))
    assert_keeps(candidate, scheduler, n, [(begin / n, 1.0), (0.0, end / n), (begin / n, end / n)])


@todo("9.4", guards="windows that end close to an iteration's edge, or hold one iteration or none")
def test_close_by_is_not_inside(candidate: Any, draw: Draw) -> None:
    """An iteration that is cut off by a little does not count, even if none is left."""
    n = draw.integer(11, 24)
    first, last = draw.integer(1, n // 2 - 1), draw.integer(n // 2 + 2, n - 1)
    little, least = draw.uniform(0.01, 0.02), draw.uniform(2e-4, 4e-4)  # parts of an iteration
    windows = [
        ((first + little) / n, (last - little) / n),
        ((first - little) / n, (last + little) / n),
        ((first + least) / n, (last - least) / n),
        ((first + little) / n, (first + 1 - little) / n),
        ((first - least) / n, (first + 1 + least) / n),
    ]
    assert_keeps(candidate, DDIMScheduler(clip_sample=False), n, windows)


# 9.5


def scales_of(n: int) -> Tensor:
    """The scales of ControlNetModel with n down residuals, all of them 1 before they are scaled."""
    controlnet = ControlNetModel(
        down_block_types=("DownBlock2D",),
        mid_block_type="UNetMidBlock2D",
        block_out_channels=(8,),
        layers_per_block=n - 1,
        norm_num_groups=4,
        conditioning_embedding_out_channels=(4,),
    ).eval()
    for conv in nets.zero_convs(controlnet):
        torch.nn.init.ones_(conv.bias)
    inputs = nets.Inputs(
        torch.zeros(1, nets.LATENT_CHANNELS, 2, 2),
        torch.tensor(5),
        torch.zeros(1, 2, 8),
        torch.zeros(1, 3, 2, 2),
    )
    down, mid = nets.asked(controlnet, inputs, guess=True)
    return torch.stack([residual.flatten()[0] for residual in (*down, mid)])


def evenly_risen(n: int) -> Tensor:
    """From 0.1 to 1 in n equal ratios, in float64."""
    return 10 ** (torch.arange(n + 1).double() / n - 1)


@todo("9.5")
def test_scales_rise_from_a_tenth_to_one(candidate: Any, draw: Draw) -> None:
    """guess_mode_scales are those of ControlNetModel, the middle block's among them."""
    for n in [*draw.sample(range(3, 13), 3), draw.choice([1, 2, 14, 17])]:
        assert_matches(
            candidate.guess_mode_scales(n),
            library=functools.partial(scales_of, n),
            truth=functools.partial(evenly_risen, n),
            what=f"the scales of {n} down residuals and a mid residual",
        )


class Turn:
    """One iteration of the pipeline's loop with guidance, and what the learner is given of it."""

    def __init__(
        self, draw: Draw, device: str, guess: bool, networks: str = "tiny", batch: int = 0
    ) -> None:
        self.nets = nets.pair(networks, device)
        self.guess, self.scale = guess, draw_scale(draw, "small" if guess else "large")
        height, width = (4, 8) if networks == "tiny" else (4, 6)
        self.inputs = nets.draw_inputs(draw, self.nets, batch or draw.integer(2, 3), height, width)
        self.negatives = draw.latents(*self.inputs.embeds.shape)

    @property
    def conditional_residuals(self) -> list[Tensor]:
        """The ControlNet's answer to the conditional half, as guess mode asks for it."""
        down, mid = nets.asked(self.nets.controlnet, self.inputs, self.scale, guess=True)
        return [*down, mid]

    @property
    def arguments(self) -> tuple[Any, ...]:
        """latents, t, embeds, image, scale and guess_mode of 9.7."""
        x, t, prompts, image = self.inputs
        latents, embeds = torch.cat([x, x]), torch.cat([self.negatives, prompts])
        shown = image if self.guess else torch.cat([image, image])
        return latents, t, embeds, shown, self.scale, self.guess

    @functools.cached_property
    def library(self) -> nets.Run:
        """StableDiffusionControlNetPipeline's only iteration, with DDIM, which scales nothing."""
        return nets.run_of(
            self.nets,
            nets.one_turn(self.inputs.t),
            prompts=self.inputs.embeds,
            negatives=self.negatives,
            latents=self.inputs.latents,
            image=self.inputs.image,
            num_inference_steps=1,
            controlnet_conditioning_scale=self.scale,
            guess_mode=self.guess,
        )

    @property
    def residuals(self) -> list[Tensor]:
        """What the pipeline gave its UNet, the mid residual last."""
        *_, down, mid = self.library.unet_calls[0]
        return [*down, mid]


@todo("9.5")
@pytest.mark.parametrize("batch", [0, 1], ids=["several", "one sample"])
def test_the_unconditional_half_gets_zeros(
    candidate: Any, draw: Draw, device: str, batch: int
) -> None:
    """The residuals are those that StableDiffusionControlNetPipeline gives its UNet."""
    turn = Turn(draw, device, guess=True, batch=batch)
    halves = turn.conditional_residuals[: 3 if batch else None]
    answer = candidate.guess_mode_residuals(halves)
    both = unpack(answer, *(f"residual {number}" for number in range(len(halves))))
    for number, residual in enumerate(both):
        assert_matches(
            residual,
            library=nth(lambda: turn.residuals, number),
            truth=nth(lambda: [torch.cat([0 * half, half]).double() for half in halves], number),
            what=f"residual {number} for both halves",
        )
    infinite = torch.full_like(halves[0], math.inf)
    (residual,) = unpack(candidate.guess_mode_residuals([infinite]), "residual 0")
    assert_equals(
        residual,
        value=torch.cat([torch.zeros_like(infinite), infinite]),
        what="an infinite residual for both halves",
    )


# 9.6


def draw_scales(draw: Draw, count: int) -> list[float]:
    """As many scales, each far from the others, from 0 and from 1."""
    ranges = draw.sample([(0.2, 0.4), (0.6, 0.8), (1.4, 1.8), (2.3, 2.7)], count)
    return [draw.uniform(low, high) for low, high in ranges]


@todo("9.6", guards="each ControlNet at a scale of its own")
@pytest.mark.parametrize("count", [2, 3, 1])
def test_residuals_of_several_controlnets_add_up(
    candidate: Any, draw: Draw, device: str, count: int
) -> None:
    """Down and mid residuals are MultiControlNetModel's, each ControlNet at its own scale."""
    assert_added_up(candidate, draw, device, draw_scales(draw, count))


@todo(
    "9.6",
    guards="scales that are equal, 0 or 1, one sample, another number of residuals, and tuples",
)
@pytest.mark.parametrize("kind", ["equal", "one", "zero"])
def test_scales_may_be_any_numbers(candidate: Any, draw: Draw, device: str, kind: str) -> None:
    """Equal scales count twice, a scale of 0 leaves its ControlNet out."""
    scale = draw_scale(draw, "small")
    scales = {"equal": [scale, scale], "one": [1.0, 1.0], "zero": [scale, 0.0]}[kind]
    assert_added_up(candidate, draw, device, scales, batch=1, first=2, sequence=tuple)


def assert_added_up(
    candidate: Any,
    draw: Draw,
    device: str,
    scales: list[float],
    batch: int = 2,
    first: int | None = None,
    sequence: type = list,
) -> None:
    """multi_control gives MultiControlNetModel's residuals: the first so many and the mid one."""
    networks = [nets.tiny_controlnet(number, device) for number in range(len(scales))]
    shared = nets.draw_inputs(draw, nets.pair("tiny", device), batch, 6, 10)
    images = [draw.tensor(*shared.image.shape) for _ in networks]
    sets = []
    for network, image in zip(networks, images, strict=True):
        down, mid = nets.asked(network, shared._replace(image=image))
        sets.append((sequence(down[:first]), mid))
    answer = candidate.multi_control(sequence(sets), sequence(scales))

    @functools.cache
    def library() -> list[Tensor]:
        together = shared._replace(image=images)  # type: ignore[arg-type]  # a list of them
        down, mid = nets.asked(MultiControlNetModel(networks), together, scales)
        return [*down[:first], mid]

    def truth() -> list[Tensor]:
        scaled = [
            [scale * residual.double() for residual in (*down, mid)]
            for (down, mid), scale in zip(sets, scales, strict=True)
        ]
        return [sum(column[1:], column[0]) for column in zip(*scaled, strict=True)]

    assert_residuals(answer, library=library, truth=truth)


@todo("9.6")
@pytest.mark.parametrize(("scales", "controlnets"), [(2, 3), (3, 2), (1, 3), (0, 2)])
def test_every_controlnet_has_a_scale(
    candidate: Any, draw: Draw, scales: int, controlnets: int
) -> None:
    """As many scales as ControlNets: MultiControlNetModel passes the others over in silence."""
    sets = [([draw.latents(2, 3, 4, 6)], draw.latents(2, 3, 2, 3)) for _ in range(controlnets)]
    drawn = draw_scales(draw, scales)
    assert_raises(
        lambda: candidate.multi_control(sets, drawn),
        "ValueError",
        what=f"a list of scales of length {scales} for {controlnets} ControlNets",
    )


# 9.7


def assert_controlnet_asked(controlnet: nets.Lent, turn: Turn) -> None:
    """The ControlNet was asked what the pipeline asks it."""
    assert_calls(
        controlnet.calls,
        library=lambda: turn.library.controlnet_calls,
        names=CONTROLNET_CALL,
        of="the controlnet",
    )
    assert_equals(
        [call[-1] for call in controlnet.calls],
        library=lambda: [call[-1] for call in turn.library.controlnet_calls],
        what="`guess_mode` in the calls of the controlnet",
    )


def assert_unet_asked(unet: nets.Lent, turn: Turn) -> None:
    """The UNet was asked what the pipeline asks it, with the same residuals."""
    assert_calls(
        unet.calls, library=lambda: turn.library.unet_calls, names=UNET_CALL, of="the unet"
    )
    *_, down, mid = unet.calls[0]
    count = how_many(down)
    assert_equals(
        count,
        library=lambda: len(turn.residuals) - 1,
        what="the number of down residuals given to the unet",
    )
    for number, residual in enumerate([*(down or []), mid]):
        name = "mid residual" if number == count else f"down residual {number}"
        assert_agrees(
            residual,
            library=nth(lambda: turn.residuals, number),
            what=f"the {name} given to the unet",
        )


GUESS = pytest.mark.parametrize("guess", [False, True], ids=["both halves", "guess mode"])
TURNS = pytest.mark.parametrize(
    ("guess", "networks"),
    [(False, "tiny"), (True, "tiny"), (True, "shipped")],
    ids=["both halves", "guess mode", "guess mode of trained networks"],
)


def lent(turn: Turn) -> tuple[nets.Lent, nets.Lent]:
    """The UNet and the ControlNet of this iteration, to be asked by the learner's code."""
    return nets.lent_unet(turn.nets.unet), nets.lent_controlnet(turn.nets.controlnet)


@todo("9.7", guards="the pipeline's own call of its ControlNet", again=False)
@TURNS
def test_the_controlnet_is_asked_once(
    candidate: Any, draw: Draw, device: str, guess: bool, networks: str
) -> None:
    """The ControlNet gets what StableDiffusionControlNetPipeline's gets, in one call."""
    turn = Turn(draw, device, guess, networks)
    unet, controlnet = lent(turn)
    candidate.controlled_prediction(unet, controlnet, *turn.arguments)
    assert_controlnet_asked(controlnet, turn)


@todo("9.7", guards="the pipeline's own call of its UNet", again=False)
@TURNS
def test_the_unet_still_makes_the_prediction(
    candidate: Any, draw: Draw, device: str, guess: bool, networks: str
) -> None:
    """The UNet gets what the pipeline's gets, residuals as well, and its answer is the result."""
    turn = Turn(draw, device, guess, networks)
    unet, controlnet = lent(turn)
    answer = candidate.controlled_prediction(unet, controlnet, *turn.arguments)
    assert_unet_asked(unet, turn)
    assert_agrees(answer, library=lambda: turn.library.answers[0], what="the prediction")


def kind_of(t: Any) -> str:
    """Dtype and shape of a tensor; of anything else its type."""
    return f"{t.dtype} {tuple(t.shape)}" if isinstance(t, Tensor) else type(t).__name__


@todo("9.7", guards="halves of the latents that differ, a batch of one, timesteps of every kind")
@GUESS
@pytest.mark.parametrize(
    ("batch", "kind"), [(1, "a number"), (2, "a whole tensor"), (2, "a tensor with a fraction")]
)
def test_each_half_is_itself(
    candidate: Any, draw: Draw, device: str, batch: int, kind: str, guess: bool
) -> None:
    """ControlNetModel and UNet2DConditionModel are asked about the rows that belong together."""
    turn = Turn(draw, device, guess, batch=batch)
    _, _, embeds, image, scale, _ = turn.arguments
    latents = draw.latents(2 * batch, *turn.inputs.latents.shape[1:])
    t: Any = draw.integer(40, 90) + (0 if kind == "a whole tensor" else 0.5)
    if kind != "a number":
        t = torch.tensor(t)
    unet, controlnet = lent(turn)
    answer = candidate.controlled_prediction(
        unet, controlnet, latents, t, embeds, image, scale, guess
    )
    seen, heard = (latents[batch:], embeds[batch:]) if guess else (latents, embeds)
    assert_calls(
        controlnet.calls,
        library=lambda: [(seen, t, heard, image, scale)],
        names=CONTROLNET_CALL,
        of="the controlnet",
    )
    assert_equals(
        [kind_of(call[1]) for call in (*controlnet.calls, *unet.calls)],
        value=[kind_of(t)] * 2,
        what="the kind of t in the calls of the two networks",
    )

    def library() -> Tensor:
        down, mid = nets.asked(
            turn.nets.controlnet, nets.Inputs(seen, t, heard, image), scale, guess
        )
        if guess:
            *down, mid = (torch.cat([torch.zeros_like(r), r]) for r in (*down, mid))
        with torch.no_grad(), plain_convolutions():
            prediction: Tensor = turn.nets.unet(
                latents,
                t,
                embeds,
                down_block_additional_residuals=down,
                mid_block_additional_residual=mid,
            ).sample
        return prediction

    assert_agrees(answer, library=library, what="the prediction for two different halves")


@todo("9.7", guards="the zeros of the unconditional half, where a residual is infinite")
def test_an_infinite_residual_stays_in_its_half(candidate: Any, draw: Draw, device: str) -> None:
    """In guess mode the unconditional half gets zeros, and not a product with what overflowed."""
    turn = Turn(draw, device, guess=True)
    overflown = torch.full_like(turn.inputs.latents, math.inf)
    unet, controlnet = nets.idle_unet(), nets.answering([overflown], overflown)
    candidate.controlled_prediction(unet, controlnet, *turn.arguments)
    assert_equals(len(unet.calls), value=1, what="how often the unet was called")
    *_, down, mid = unet.calls[0]
    (residual,) = unpack(down, "down residual 0")
    for name, both in (("down residual 0", residual), ("mid residual", mid)):
        assert_equals(
            both,
            value=torch.cat([torch.zeros_like(overflown), overflown]),
            what=f"the {name} given to the unet, of an infinite one",
        )


@todo("9.7", guards="scale 0 as a UNet without control")
@GUESS
def test_at_scale_zero_the_image_has_no_say(
    candidate: Any, draw: Draw, device: str, guess: bool
) -> None:
    """At conditioning scale 0 the ControlNet is asked, and the prediction is the plain UNet's."""
    turn = Turn(draw, device, guess)
    turn.scale = 0.0
    unet, controlnet = lent(turn)
    answer = candidate.controlled_prediction(unet, controlnet, *turn.arguments)
    assert_controlnet_asked(controlnet, turn)
    assert_property(
        answer,
        equals=lambda: unet.answer(*turn.arguments[:3]),
        what="the prediction at conditioning scale 0",
    )
