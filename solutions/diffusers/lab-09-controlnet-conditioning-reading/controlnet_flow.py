"""Lab 09 · ControlNet: structure that enters a denoiser as residuals.

Goal: read ControlNet as an extra signal path. A trained copy of the UNet's encoder reads the
latents and a control image, and its features, each behind a 1×1 convolution that began at zero, are
added to the skips and to the middle block's result of the frozen UNet. The UNet still makes the
prediction, and the scheduler hears nothing of it.

Symbols: B = batch, C = channels, H and W = the sides of a feature map or, of a control image, in
pixels; n = number of down residuals, one for each skip. "Down residuals" are the n tensors for the
skips, in the order in which the way down makes them (conv_in's first), the "mid residual" is the
one for the middle block.

`diffusers` cannot be imported in this file: what is asked is written in torch.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

Residuals = tuple[Sequence[Tensor], Tensor]  # (down residuals, mid residual)


def control_image(image_uint8: np.ndarray, batch: int, guidance: bool) -> Tensor:
    """9.1 · Pictures as a ControlNet takes them: channels first, in [0, 1], one for each latent.

    image_uint8: uint8 array, (H, W, 3) or (N, H, W, 3), RGB. batch: the number of latents, a
    multiple of N (else ValueError). Returns float32 (batch, 3, H, W); with guidance
    (2·batch, 3, H, W), the same pictures for the unconditional and for the conditional half.

    Each picture is repeated for the latents that belong to it, side by side: of [a, b] and batch 4
    comes [a, a, b, b], with guidance [a, a, b, b, a, a, b, b].

    Source: StableDiffusionControlNetPipeline.prepare_image, given PIL images.

    >>> image = control_image(np.array([[[255, 0, 51]]], np.uint8), 1, True)
    >>> image.shape, [round(number, 3) for number in image[0].flatten().tolist()]
    (torch.Size([2, 3, 1, 1]), [1.0, 0.0, 0.2])
    >>> two = np.array([[[[0, 0, 0]]], [[[255, 255, 255]]]], np.uint8)
    >>> control_image(two, 4, False)[:, 0, 0, 0].tolist()
    [0.0, 0.0, 1.0, 1.0]
    """
    ### BEGIN SOLUTION
    pictures = torch.from_numpy(image_uint8.copy().reshape(-1, *image_uint8.shape[-3:]))
    if batch % len(pictures):
        raise ValueError(f"{batch} latents cannot share {len(pictures)} control images evenly")
    unit = pictures.movedim(-1, 1).float() / 255
    rows = unit.repeat_interleave(batch // len(pictures), dim=0)
    return torch.cat([rows, rows]) if guidance else rows
    ### END SOLUTION


def zero_conv_residuals(
    features: Sequence[Tensor], zero_convs: Sequence[tuple[Tensor, Tensor]], scale: float
) -> tuple[Sequence[Tensor], Tensor]:
    """9.2 · The features of a ControlNet's encoder behind their zero convolutions, scaled.

    features: n + 1 tensors (B, C, H, W), each of its own C, H and W; the last is the mid block's.
    zero_convs: (weight (C, C, 1, 1), bias (C,)) for each of them. scale: the conditioning scale.
    Returns (list of n down residuals, mid residual), in the features' shapes and dtype.

    residual = scale · (weight · feature + bias), where the weight mixes the channels of a place and
    no places: weight[o, i] leads from channel i to channel o.

    Source: Zhang et al. 2023 (arXiv 2302.05543), section 3.1; ControlNetModel.forward, its
    controlnet_down_blocks, its controlnet_mid_block and "scaling".

    >>> down, mid = torch.tensor([[[[1.0]], [[2.0]]]]), torch.tensor([[[[7.0]]]])
    >>> first = torch.tensor([[0.0, 1.0], [0.0, 3.0]]).reshape(2, 2, 1, 1), torch.tensor([0.0, 4.0])
    >>> last = torch.zeros(1, 1, 1, 1), torch.zeros(1)  # still as it was made
    >>> residuals, mid_residual = zero_conv_residuals([down, mid], [first, last], 0.5)
    >>> [residual.flatten().tolist() for residual in residuals], mid_residual.item()
    ([[1.0, 5.0]], 0.0)
    """
    ### BEGIN SOLUTION
    *down, mid = [
        scale * F.conv2d(feature, weight, bias)
        for feature, (weight, bias) in zip(features, zero_convs, strict=True)
    ]
    return down, mid
    ### END SOLUTION


def add_residuals(
    skips: Sequence[Tensor],
    hidden: Tensor,
    mid_block: Callable[[Tensor], Tensor],
    down_residuals: Sequence[Tensor] | None,
    mid_residual: Tensor | None,
) -> tuple[Sequence[Tensor], Tensor]:
    """9.3 · Where the residuals enter the UNet: each skip, and what the middle block returns.

    skips: the n tensors kept on the way down. hidden: (B, C, H, W), what the middle block is given.
    mid_block: to be called once, as mid_block(hidden). down_residuals: n tensors of the skips'
    shapes, in their order. mid_residual: of the shape of the middle block's result. Returns
    (list of n skips for the way up, input of the way up).

    Both residuals None: a UNet without control. Only one of them None, or another number of down
    residuals than skips: ValueError. The arguments are left as they are, the lists and the tensors.

    Source: UNet2DConditionModel.forward, which passes over such errors in silence.

    >>> skips, hidden = [torch.tensor([1.0]), torch.tensor([2.0])], torch.tensor([3.0])
    >>> controls = [torch.tensor([0.5]), torch.tensor([0.25])]
    >>> double = lambda tensor: 2 * tensor
    >>> add_residuals(skips, hidden, double, controls, torch.tensor([10.0]))
    ([tensor([1.5000]), tensor([2.2500])], tensor([16.]))
    >>> add_residuals(skips, hidden, double, None, None)
    ([tensor([1.]), tensor([2.])], tensor([6.]))
    """
    ### BEGIN SOLUTION
    if down_residuals is None and mid_residual is None:
        return list(skips), mid_block(hidden)
    if down_residuals is None or mid_residual is None:
        raise ValueError("down residuals and a mid residual are given together or not at all")
    if len(down_residuals) != len(skips):
        raise ValueError(f"{len(down_residuals)} down residuals for {len(skips)} skips")
    controlled = [skip + residual for skip, residual in zip(skips, down_residuals, strict=True)]
    return controlled, mid_block(hidden) + mid_residual
    ### END SOLUTION


def controlnet_keep(num_timesteps: int, start: float, end: float) -> list[float]:
    """9.4 · At which iterations of the loop the ControlNet has a say: 1.0 there, 0.0 elsewhere.

    num_timesteps: the number n of the scheduler's timesteps (2·steps − 1 for Heun). start and end:
    fractions of the run, 0 ≤ start < end ≤ 1. Returns n floats, by which the conditioning scale of
    iteration i is multiplied. The iterations divide the run from 0 to 1 evenly; one counts only
    when all of it lies between start and end, the two ends included.

    Read: handbook/controlnet.md, "Start and end".
    Source: StableDiffusionControlNetPipeline.__call__, control_guidance_start and
    control_guidance_end.

    >>> controlnet_keep(4, 0.0, 1.0)
    [1.0, 1.0, 1.0, 1.0]
    >>> controlnet_keep(5, 0.3, 0.8)
    [0.0, 0.0, 1.0, 1.0, 0.0]
    """
    ### BEGIN SOLUTION
    turns = range(num_timesteps)
    outside = [i / num_timesteps < start or (i + 1) / num_timesteps > end for i in turns]
    return [0.0 if out else 1.0 for out in outside]
    ### END SOLUTION


def guess_mode_scales(n: int) -> Tensor:
    """9.5 · In guess mode each residual has a scale of its own, from 0.1 up to 1.

    n: the number of down residuals. Returns float32 (n + 1,): the scales of the n down residuals
    in their order, then the mid residual's. Neighbours have one ratio: 10^(−1 + k / n), k = 0 … n.

    Source: ControlNetModel.forward, guess_mode; there each is multiplied by conditioning_scale.

    >>> [round(scale, 4) for scale in guess_mode_scales(2).tolist()]
    [0.1, 0.3162, 1.0]
    """
    ### BEGIN SOLUTION
    return torch.logspace(-1, 0, n + 1)
    ### END SOLUTION


def guess_mode_residuals(residuals: Sequence[Tensor]) -> list[Tensor]:
    """9.5 · Residuals of the conditional half, made to fit a batch of both halves.

    residuals: any number of tensors (B, C, H, W). Returns as many (2·B, C, H, W): zeros for the
    unconditional half, which comes first, then the residual.

    Source: StableDiffusionControlNetPipeline.__call__, guess_mode.

    >>> [both.tolist() for both in guess_mode_residuals([torch.tensor([[5.0], [6.0]])])]
    [[[0.0], [0.0], [5.0], [6.0]]]
    """
    ### BEGIN SOLUTION
    return [torch.cat([torch.zeros_like(residual), residual]) for residual in residuals]
    ### END SOLUTION


def multi_control(
    residual_sets: Sequence[Residuals], scales: Sequence[float]
) -> tuple[Sequence[Tensor], Tensor]:
    """9.6 · Several ControlNets: every residual is the sum of theirs, each with its own scale.

    residual_sets: one (down residuals, mid residual) pair for each ControlNet, not scaled yet, all
    of the same shapes. scales: one conditioning scale for each; another number of them: ValueError.
    Returns (list of down residuals, mid residual).

    Source: MultiControlNetModel.forward, which passes over a wrong number of scales in silence.

    >>> edges = [torch.tensor([1.0]), torch.tensor([2.0])], torch.tensor([3.0])
    >>> depth = [torch.tensor([10.0]), torch.tensor([20.0])], torch.tensor([30.0])
    >>> multi_control([edges, depth], [2.0, 0.5])
    ([tensor([7.]), tensor([14.])], tensor([21.]))
    """
    ### BEGIN SOLUTION
    if len(residual_sets) != len(scales):
        raise ValueError(f"{len(scales)} scales for {len(residual_sets)} ControlNets")
    scaled = [
        [scale * residual for residual in (*down, mid)]
        for (down, mid), scale in zip(residual_sets, scales, strict=True)
    ]
    *down_sums, mid_sum = [torch.stack(column).sum(0) for column in zip(*scaled, strict=True)]
    return down_sums, mid_sum
    ### END SOLUTION


def controlled_prediction(
    unet: Callable[..., Tensor],
    controlnet: Callable[..., Residuals],
    latents: Tensor,
    t: Tensor | float,
    embeds: Tensor,
    image: Tensor,
    scale: float,
    guess_mode: bool,
) -> Tensor:
    """9.7 · One prediction with a ControlNet beside the UNet, for both halves of guidance.

    latents: (2·B, C, H, W), scaled for the network already, and embeds: (2·B, L, D); both with the
    unconditional half first. t: handed on as it is. image: the control image, with as many rows as
    the ControlNet is to see. scale: the conditioning scale. Returns what the unet answers,
    (2·B, C, H, W); combining the halves comes later.

    controlnet(sample, timestep, encoder_hidden_states=…, controlnet_cond=…, conditioning_scale=…,
    guess_mode=…) gives (list of down residuals, mid residual), scaled. unet(sample, timestep,
    encoder_hidden_states=…, down_block_additional_residuals=…, mid_block_additional_residual=…)
    gives a tensor. These are diffusers' names; neither takes return_dict. Each is called once.

    The ControlNet is told `scale` and `guess_mode`, and sees what the unet sees. In guess mode it
    sees only the conditional half, of latents and embeds, and the unconditional half of the unet
    gets residuals of zero (9.5). With guess_mode the image has B rows, else 2·B.

    Source: StableDiffusionControlNetPipeline.__call__, the body of its loop.

    >>> def controlnet(sample, timestep, encoder_hidden_states, controlnet_cond, **named):
    ...     residual = named["conditioning_scale"] * controlnet_cond
    ...     return [residual], residual
    >>> def unet(sample, timestep, **named):
    ...     return sample + named["mid_block_additional_residual"]
    >>> pair = torch.tensor([[1.0], [1.0]])
    >>> controlled_prediction(unet, controlnet, pair, 9, pair, pair, 2.0, False).tolist()
    [[3.0], [3.0]]
    >>> controlled_prediction(unet, controlnet, pair, 9, pair, pair[:1], 2.0, True).tolist()
    [[1.0], [3.0]]
    """
    ### BEGIN SOLUTION
    seen, heard = latents, embeds
    if guess_mode:
        seen, heard = latents.chunk(2)[1], embeds.chunk(2)[1]
    down, mid = controlnet(
        seen,
        t,
        encoder_hidden_states=heard,
        controlnet_cond=image,
        conditioning_scale=scale,
        guess_mode=guess_mode,
    )
    if guess_mode:
        *down, mid = guess_mode_residuals([*down, mid])
    return unet(
        latents,
        t,
        encoder_hidden_states=embeds,
        down_block_additional_residuals=down,
        mid_block_additional_residual=mid,
    )
    ### END SOLUTION
