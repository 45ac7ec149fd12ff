"""Lab 07: where in the picture each word of a prompt is heard, by the learner's attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from infralens.shapes.drawing import Combination, Drawing, paint
from infralens.show.pictures.answers import tensor
from infralens.show.pictures.look import INK, LIBRARY, MINE, field, picture, sheet, upright
from infralens.show.pictures.shipped import LATENTS, prompted

CAPTION = "a large yellow star on navy background"
STAR = Drawing(Combination("large", "yellow", "star", "navy"), 10.0, 12.5, 17.5)
LEVEL = 400  # a timestep at which the picture is half made
LAYERS = ("down_blocks.0.attentions.0", "up_blocks.1.attentions.1")
"""An early and a late layer of the UNet that see every latent."""

SIDE = LATENTS[-1]


def draw(mine: Any, seed: int) -> Figure:
    """A map a word of two layers: the learner's weights of attention above those of diffusers."""
    run = prompted(CAPTION, seed)
    words = ["start", *CAPTION.split(), "end"]
    image = torch.from_numpy(np.asarray(paint(STAR)).copy()).permute(2, 0, 1) / 127.5 - 1
    vae, scheduler = run.pipe.vae, run.pipe.scheduler
    clean = vae.encode(image[None]).latent_dist.mode() * vae.config.scaling_factor
    noisy = scheduler.add_noise(clean, run.noise, torch.tensor([LEVEL]))
    context = run.embeds[1:]

    figure = sheet(9.6, 5.7, f"Lab 07 · where each word is heard, at t = {LEVEL}")
    picture(figure.add_axes((0.015, 0.66, 0.13, 0.219)), image, "the picture")
    mask = torch.arange(context.shape[1])[None] < len(words)
    for i, layer in enumerate(LAYERS):
        attention = run.pipe.unet.get_submodule(f"{layer}.transformer_blocks.0.attn2")
        hidden = _heard(run.pipe.unet, attention, noisy, context)
        right = _library(attention, hidden, context, mask)
        both = (("yours", MINE, _yours(mine, attention, hidden, context, mask)),)
        for k, (name, colour, maps) in enumerate((*both, ("diffusers", LIBRARY, right))):
            bottom = 0.72 - 0.45 * i - 0.175 * k
            for m, word in enumerate(words):
                axes = figure.add_axes((0.19 + 0.089 * m, bottom, 0.083, 0.14))
                field(axes, maps[m], float(right[m].max()), word if k == 0 else "")
            upright(figure, 0.19, bottom + 0.07, name, colour)
        figure.text(0.19, 0.905 - 0.45 * i, layer, fontsize=8, color=INK, va="bottom")
    return figure


def _heard(unet: Any, attention: Any, noisy: Tensor, context: Tensor) -> Tensor:
    """The hidden tokens (1, N, D) that this layer is given."""
    given: list[Tensor] = []
    hook = attention.register_forward_pre_hook(lambda _, args: given.append(args[0]))
    unet(noisy, LEVEL, encoder_hidden_states=context)
    hook.remove()
    return given[0]


def _yours(mine: Any, attention: Any, hidden: Tensor, context: Tensor, mask: Tensor) -> Tensor:
    """The learner's weights (M, h, w), a mean over the heads.

    The values are made to tell the weights: each token has a value of its own, 1 in one channel of
    each head and 0 in the others, a few tokens at a time.
    """
    count, width = context.shape[1], context.shape[2]
    inner = attention.to_q.weight.shape[0]
    size = inner // attention.heads
    named = torch.cat([context, torch.eye(count)[None]], dim=2)  # each token, and its number
    keys = torch.cat([attention.to_k.weight, torch.zeros(inner, count)], dim=1)
    found = []
    for start in range(0, count, size):
        values = torch.zeros(attention.heads, size, width + count)
        for j in range(min(size, count - start)):
            values[:, j, width + start + j] = 1
        weights = {
            "to_q.weight": attention.to_q.weight.data,
            "to_k.weight": keys,
            "to_v.weight": values.flatten(0, 1),
            "to_out.0.weight": torch.eye(inner),
            "to_out.0.bias": torch.zeros(inner),
        }
        answer = mine.cross_attention(hidden, named, weights, attention.heads, mask)
        told = tensor(answer, (1, SIDE**2, inner), "cross_attention")
        found.append(told[0].reshape(-1, attention.heads, size).mean(dim=1))
    return torch.cat(found, dim=1)[:, :count].T.reshape(count, SIDE, SIDE)


def _library(attention: Any, hidden: Tensor, context: Tensor, mask: Tensor) -> Tensor:
    """The weights (M, h, w) that Attention of diffusers works with, a mean over the heads."""
    query = attention.head_to_batch_dim(attention.to_q(hidden))
    key = attention.head_to_batch_dim(attention.to_k(context))
    hidden_from = torch.zeros(1, 1, mask.shape[1]).masked_fill(~mask[:, None], -torch.inf)
    weights: Tensor = attention.get_attention_scores(query, key, hidden_from)
    return weights.mean(dim=0).T.reshape(-1, SIDE, SIDE)
