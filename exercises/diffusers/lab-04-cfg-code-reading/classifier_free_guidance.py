"""Lab 04 · CFG code reading: one network, two predictions, a straight line between them.

Goal: see that classifier-free guidance is a linear combination of two answers of the same network,
one with the prompt and one with the negative (or empty) prompt. No classifier takes part, and the
scheduler's formula stays as it is: guidance is done before `step`, which gets one prediction.

Symbols: B = prompts in the batch, C, H, W = channels, height and width of the latents, L, D =
tokens and width of the text embeddings, w = the guidance scale, φ = the rescale, t = a timestep.
Branches: u (unconditional) belongs to the negative prompt, c (conditional) to the prompt.

`diffusers` cannot be imported in this file: what is asked is written in torch.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

# What predicts: denoiser(latents, t, embeds) -> prediction, shaped like the latents.
Denoiser = Callable[[Tensor, Any, Tensor], Tensor]


def combine(uncond: Tensor, cond: Tensor, scale: float) -> Tensor:
    """4.1 · The guided prediction: from u through c, and on.

    uncond, cond: two predictions of one shape (any), e.g. (B, C, H, W). scale: any w, also 0 (u
    itself), 1 (c itself) and what lies between. Returns the point at w on the straight line through
    both, in their shape and dtype.

    Read: handbook/guidance.md, "The formula".
    Source: Ho and Salimans 2022 (arXiv 2207.12598), equation 6, counted as in Imagen (arXiv
    2205.11487, equation 2): w here is 1 + w there; ClassifierFreeGuidance.forward in
    diffusers.guiders.

    >>> combine(torch.tensor([1.0, 0.0]), torch.tensor([2.0, -1.0]), 3.0).tolist()
    [4.0, -3.0]
    >>> combine(torch.tensor([1.0, 0.0]), torch.tensor([2.0, -1.0]), 0.0).tolist()
    [1.0, 0.0]
    """
    raise NotImplementedError("TODO 4.1: combine")


def guidance_batch(
    latents: Tensor, negative_embeds: Tensor, prompt_embeds: Tensor
) -> tuple[Tensor, Tensor]:
    """4.2 · One batch that holds both branches, unconditional half first.

    latents: (B, C, H, W). negative_embeds, prompt_embeds: (B, L, D). Returns (latents, embeds) of
    shapes (2B, C, H, W) and (2B, L, D): row i belongs to the negative prompt of image i, row B + i
    to its prompt. Both rows of an image hold the same latents.

    Source: StableDiffusionPipeline.__call__, what its UNet is given.

    >>> x = torch.tensor([[1.0], [2.0]])  # two images, of one number each
    >>> batch, embeds = guidance_batch(x, torch.tensor([[-1.0], [-2.0]]), x * 10)
    >>> batch.flatten().tolist(), embeds.flatten().tolist()
    ([1.0, 2.0, 1.0, 2.0], [-1.0, -2.0, 10.0, 20.0])
    """
    raise NotImplementedError("TODO 4.2: guidance_batch")


def guided_prediction(
    denoiser: Denoiser,
    latents: Tensor,
    t: Any,
    negative_embeds: Tensor,
    prompt_embeds: Tensor,
    scale: float,
) -> Tensor:
    """4.3 · Ask the network once, and guide.

    denoiser(latents, t, embeds) is called exactly once, by position. t may have a fraction, and
    goes on as a tensor or as the same number:

    * scale above 1: with the batch of 4.2 (unconditional half first); its answer (2B, C, H, W) is
      split in two and combined as in 4.1.
    * scale at or below 1: guidance is off. One call with `latents` and prompt_embeds, batch B, and
      its answer is the result. (4.1 knows more scales than a pipeline uses.)

    latents: (B, C, H, W), as the network is to see them. embeds: (B, L, D). Returns (B, C, H, W).

    Source: StableDiffusionPipeline.__call__ and its property do_classifier_free_guidance.

    >>> denoiser = lambda x, t, embeds: x + embeds  # a network that one can follow
    >>> x, negative, prompt = torch.tensor([[10.0]]), torch.tensor([[1.0]]), torch.tensor([[2.0]])
    >>> guided_prediction(denoiser, x, 5, negative, prompt, 3.0).tolist()
    [[14.0]]
    >>> guided_prediction(denoiser, x, 5, negative, prompt, 0.0).tolist()
    [[12.0]]
    """
    raise NotImplementedError("TODO 4.3: guided_prediction")


def rescale_guidance(guided: Tensor, cond: Tensor, rescale: float) -> Tensor:
    """4.4 · Give the guided prediction back some of the size that guidance took from it.

    guided, cond: (B, …) of one shape and any rank: images (B, C, H, W), tokens (B, N, C), video
    (B, C, F, H, W). rescale: φ in [0, 1]. Each sample of the batch on its own is brought to the
    standard deviation that cond has (over all axes but the first), φ of the way: 0 is guided as it
    is, 1 is cond's size.

    A sample whose guided standard deviation is exactly 0 comes back as it was, and the other
    samples of the batch are not affected by it. Returns guided's shape and dtype.

    Read: handbook/guidance.md, "Rescaling".
    Source: Lin et al. 2023 (arXiv 2305.08891), section 3.4; rescale_noise_cfg (which divides by
    that 0 and gives NaN or infinity).

    >>> guided = torch.tensor([[-3.0, 3.0], [0.5, 0.5]])
    >>> cond = torch.tensor([[-1.0, 1.0], [-1.0, 1.0]])
    >>> rescale_guidance(guided, cond, 0.5).tolist()
    [[-2.0, 2.0], [0.5, 0.5]]
    """
    raise NotImplementedError("TODO 4.4: rescale_guidance")


def guided_sample(
    denoiser: Denoiser,
    scheduler: Any,
    latents: Tensor,
    negative_embeds: Tensor,
    prompt_embeds: Tensor,
    scale: float,
    num_inference_steps: int,
) -> Tensor:
    """4.5 · The whole loop: from noise to latents, guided at every timestep.

    scheduler has, as in diffusers, set_timesteps(n), timesteps, init_noise_sigma,
    scale_model_input(sample, t) and step(model_output, t, sample).prev_sample. It may be DDIM,
    Euler, Heun or PNDM; set_timesteps has not been called. latents: (B, C, H, W), standard normal,
    not yet multiplied by anything. denoiser and embeds are those of 4.3.

    The denoiser is called once for each entry of `timesteps` (which may be more than
    num_inference_steps), with the scaled latents; step gets the guided prediction and the latents
    that were *not* scaled. Scales at or below 1 mean what they mean in 4.3. Returns (B, C, H, W).

    Source: StableDiffusionPipeline.__call__ with output_type "latent".

    >>> from types import SimpleNamespace as Box
    >>> scheduler = Box(timesteps=[2, 1], init_noise_sigma=3.0, set_timesteps=lambda n: None)
    >>> scheduler.scale_model_input = lambda x, t: x / 2
    >>> scheduler.step = lambda output, t, x: Box(prev_sample=x - output)
    >>> denoiser = lambda x, t, embeds: x * embeds
    >>> x, negative, prompt = torch.tensor([[4.0]]), torch.tensor([[0.0]]), torch.tensor([[0.5]])
    >>> guided_sample(denoiser, scheduler, x, negative, prompt, 2.0, 2).tolist()
    [[3.0]]
    """
    raise NotImplementedError("TODO 4.5: guided_sample")


def guide_learned_sigma(output: Tensor, scale: float) -> Tensor:
    """4.6 · Guide a network that answers twice as many channels: ε and a variance.

    output: (2B, 2C, H, W), the network's answer to a batch with the unconditional half first.
    Channels 0 … C − 1 are ε, channels C … 2C − 1 the variance. Returns (B, C, H, W): ε of both
    halves combined as in 4.1, in all C channels; the variance is dropped. scale is above 1.

    Source: Peebles and Xie 2023 (DiT, arXiv 2212.09748); DiTPipeline.__call__, which puts the
    *conditional* half first: swap the halves in your head when you read it.

    >>> output = torch.tensor([[1.0, 7.0], [2.0, 8.0]]).reshape(2, 2, 1, 1)  # B = 1, C = 1
    >>> guide_learned_sigma(output, 3.0).flatten().tolist()
    [4.0]
    """
    raise NotImplementedError("TODO 4.6: guide_learned_sigma")
