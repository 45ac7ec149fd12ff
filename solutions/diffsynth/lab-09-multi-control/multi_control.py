"""Lab 09 · Multi-control: several ways into one denoiser, and what happens where they meet.

Goal: for each way in, know its place, its weight, its region and its window. Features are added,
attention is added, tokens are masked, channels are joined, latents are replaced, predictions are
combined. Weights of different ways cannot be compared, and each rule for a conflict is a decision:
a sum, one softmax, or who writes last.

Symbols: B = batch, C = channels, H and W = height and width in pixels, h and w = the same of
latents, N = tokens of the picture, row by row, L = tokens of a prompt, D = features of a token.

A scheduler here is as in diffusers: DDIM, Euler or Heun.

    set_timesteps(n)                        lays out the run
    timesteps                               1-d tensor, noisiest first; not always n long
    init_noise_sigma                        the size of the first noise, known after set_timesteps
    scale_model_input(sample, t)            the state as the network sees it
    step(model_output, t, sample)           .prev_sample is the next state
    add_noise(original, noise, timesteps)   the original at the noise of timesteps, a tensor (1,)

`diffusers` cannot be imported in this file: what is asked is written in torch.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

# Keys and values, (B, T, D) each, in which the heads lie side by side.
KeysAndValues = tuple[Tensor, Tensor]


def merge_features(
    features: Sequence[Sequence[Tensor]], weights: Sequence[float] | None
) -> list[Tensor]:
    """9.1 · The features of several T2I-Adapters as one list: at each level the weighted sum.

    features[a][i]: adapter a at level i, (B, C, H, W), at a level of one shape for all adapters.
    weights: one for each adapter, or None, and then it is the mean. Returns a tensor for a level.

    Another number of weights than of adapters, or adapters of different numbers of levels:
    ValueError. The arguments are left as they are.

    Source: MultiAdapter.forward.

    >>> one, other = [torch.tensor([1.0]), torch.tensor([2.0])], [torch.tensor([3.0])] * 2
    >>> merge_features([one, other], [2.0, 1.0])
    [tensor([5.]), tensor([7.])]
    >>> merge_features([one, other], None)
    [tensor([2.]), tensor([2.5000])]
    """
    ### BEGIN SOLUTION
    if weights is None:
        weights = [1 / len(features)] * len(features)
    if len(weights) != len(features):
        raise ValueError(f"{len(weights)} weights for {len(features)} adapters")
    if len({len(levels) for levels in features}) != 1:
        raise ValueError("the adapters have different numbers of levels")
    merged = []
    for level in zip(*features, strict=True):
        total = weights[0] * level[0]
        for weight, feature in zip(weights[1:], level[1:], strict=True):
            total = total + weight * feature
        merged.append(total)
    return merged
    ### END SOLUTION


def adapter_down_path(
    layer: Callable[[int, int, Tensor], Tensor],
    downsample: Callable[[int, Tensor], Tensor],
    hidden: Tensor,
    counts: Sequence[int],
    features: Sequence[Tensor],
) -> tuple[Tensor, list[Tensor]]:
    """9.1 · A UNet's way down with the features of an adapter: (what the middle gets, skips).

    hidden: (B, C, H, W), what conv_in made. Level i has counts[i] layers, called in order as
    layer(i, j, hidden), and after them, on each level but the last, downsample(i, hidden). The
    first skip is `hidden`; then what each layer and each downsampling made is a skip.

    features[i] is added to what the last layer of level i made, before that is kept as a skip and
    before it goes on. Another number of features than of levels: ValueError. The arguments are left
    as they are, and no skip changes once it is kept.

    Source: CrossAttnDownBlock2D.forward, additional_residuals; UNet2DConditionModel.forward,
    down_intrablock_additional_residuals.

    >>> layer, downsample = lambda i, j, h: h + 1, lambda i, h: 10 * h
    >>> features = [torch.tensor(0.5), torch.tensor(0.25)]
    >>> end, skips = adapter_down_path(layer, downsample, torch.tensor(0.0), [2, 1], features)
    >>> end.item(), [skip.item() for skip in skips]
    (26.25, [0.0, 1.0, 2.5, 25.0, 26.25])
    """
    ### BEGIN SOLUTION
    if len(features) != len(counts):
        raise ValueError(f"{len(features)} features for {len(counts)} levels")
    skips = [hidden]
    for i, count in enumerate(counts):
        for j in range(count):
            hidden = layer(i, j, hidden)
            if j == count - 1:
                hidden = hidden + features[i]
            skips.append(hidden)
        if i < len(counts) - 1:
            hidden = downsample(i, hidden)
            skips.append(hidden)
    return hidden, skips
    ### END SOLUTION


def region_weights(mask: Tensor, tokens: int) -> Tensor:
    """9.2 · A mask of pixels as a weight for each of so many tokens of a picture: (tokens,).

    mask: (H, W) float32, 1 inside the region. tokens: N of some layer, whose rows and columns
    nobody says: rows = int(√(N / (W / H))), one more if that does not divide N; columns =
    N // rows. The mask is brought to (rows, columns) by F.interpolate with mode "bicubic", and read
    row by row. Where rows · columns is less than N, zeros follow.

    Source: IPAdapterMaskProcessor.downsample.

    >>> region_weights(torch.eye(2), 4).tolist()
    [1.0, 0.0, 0.0, 1.0]
    >>> region_weights(torch.ones(4, 4), 7).round().tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0]
    """
    ### BEGIN SOLUTION
    height, width = mask.shape
    rows = int(math.sqrt(tokens / (width / height)))
    rows += tokens % rows != 0
    columns = tokens // rows
    small = F.interpolate(mask[None, None], size=(rows, columns), mode="bicubic").flatten()
    return F.pad(small, (0, tokens - len(small)))
    ### END SOLUTION


def ip_attention(
    query: Tensor,
    text: KeysAndValues,
    images: Sequence[KeysAndValues],
    scales: Sequence[float],
    masks: Sequence[Tensor | None],
    heads: int,
) -> Tensor:
    """9.2 · Attention to the text, and to each image prompt by itself: (B, N, D).

    query: (B, N, D), projected. text, and each of images: (keys, values), (B, T, D) each,
    projected, each with its own T; D is heads · d, the heads side by side. The result, before the
    output's projection, is

        attention(text) + Σ scale_i · mask_i · attention(image_i),

    each attention with a softmax of its own, scores divided by √d. masks[i]: (H, W), brought to N
    tokens by region_weights, or None, which is everywhere. A scale may be 0 or negative. Images,
    scales and masks of different numbers: ValueError.

    Source: Ye and others 2023 (IP-Adapter, arXiv 2308.06721); IPAdapterAttnProcessor2_0.

    >>> query, key = torch.zeros(1, 2, 2), torch.zeros(1, 3, 2)
    >>> text, image = (key, key + 1), (key, key + 10)
    >>> mask = torch.tensor([[1.0], [0.0]])
    >>> ip_attention(query, text, [image], [0.5], [mask], 1).tolist()
    [[[6.0, 6.0], [1.0, 1.0]]]
    """
    ### BEGIN SOLUTION
    if not len(images) == len(scales) == len(masks):
        raise ValueError(f"{len(images)} images, {len(scales)} scales, {len(masks)} masks")

    def split(x: Tensor) -> Tensor:
        return x.unflatten(-1, (heads, -1)).transpose(1, 2)

    def attend(keys: Tensor, values: Tensor) -> Tensor:
        seen = F.scaled_dot_product_attention(split(query), split(keys), split(values))
        return seen.transpose(1, 2).flatten(2)

    out = attend(*text)
    for (keys, values), scale, mask in zip(images, scales, masks, strict=True):
        if scale == 0:
            continue
        part = attend(keys, values)
        if mask is not None:
            part = part * region_weights(mask, query.shape[1]).to(part.dtype)[:, None]
        out = out + scale * part
    return out
    ### END SOLUTION


def cross_bias(masks: Sequence[Tensor], lengths: Sequence[int]) -> Tensor:
    """9.3 · Regional prompts in cross-attention: what is added to its scores, (N, ΣL) float32.

    masks: for each of R prompts (h, w), above 0.5 is inside its region; N = h·w pixels, row by row.
    lengths: how many tokens each prompt has; the prompts' tokens follow each other. The bias is 0
    where a pixel may look and −inf (or −10,000 and below) where it may not.

    A pixel looks at the tokens of every prompt in whose region it lies; one that lies in no region
    looks at those of prompt 0. Lists of different lengths: ValueError.

    Source: the attention_mask of Attention, which is added before the softmax.

    >>> left = torch.tensor([[1.0, 0.0, 0.0]])
    >>> cross_bias([left, left.flip(1)], [1, 2]).tolist()
    [[0.0, -inf, -inf], [0.0, -inf, -inf], [-inf, 0.0, 0.0]]
    """
    ### BEGIN SOLUTION
    if len(masks) != len(lengths):
        raise ValueError(f"{len(masks)} masks for {len(lengths)} prompts")
    inside = torch.stack(list(masks)).flatten(1) > 0.5  # (R, N)
    inside[0] |= ~inside.any(dim=0)
    allowed = inside.T.repeat_interleave(torch.tensor(lengths), dim=1)
    return torch.zeros(allowed.shape).masked_fill(~allowed, -math.inf)
    ### END SOLUTION


def joint_mask(masks: Sequence[Tensor], lengths: Sequence[int]) -> Tensor:
    """9.3 · The same in joint attention: bool (ΣL + N, ΣL + N), True where the row may look.

    Tokens of text come first, then the pixels, as in Flux. Which pixels are a prompt's is as in
    cross_bias, those in no region and prompt 0 too. A token of text looks at the text of its own
    prompt and at the pixels of its region. A pixel looks at its prompts, and at all pixels.
    Lists of different lengths: ValueError.

    Source: FluxAttention, attention_mask.

    >>> left = torch.tensor([[1.0, 0.0]])
    >>> joint_mask([left, left.flip(1)], [1, 1]).int().tolist()
    [[1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 1], [0, 1, 1, 1]]
    """
    ### BEGIN SOLUTION
    looks = cross_bias(masks, lengths) == 0  # pixels at tokens
    pixels, words = looks.shape
    owner = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))
    mask = torch.ones(words + pixels, words + pixels, dtype=torch.bool)
    mask[:words, :words] = owner[:, None] == owner
    mask[:words, words:] = looks.T
    mask[words:, :words] = looks
    return mask
    ### END SOLUTION


def hide(image: Tensor, mask: Tensor) -> Tensor:
    """9.4 · A picture without what is to be repainted: 0, mid grey, there.

    image: (B, 3, H, W), in [−1, 1]. mask: (B or 1, 1, H, W), in [0, 1]; 0.5 and above is to be
    repainted. Returns image's shape and dtype.

    Source: StableDiffusionInpaintPipeline.__call__, masked_image.

    >>> hide(torch.tensor([0.8, -0.6, 1.0]), torch.tensor([0.0, 0.5, 1.0])).tolist()
    [0.800000011920929, -0.0, 0.0]
    """
    ### BEGIN SOLUTION
    return image * (mask < 0.5)
    ### END SOLUTION


def inpaint_input(scaled: Tensor, mask: Tensor, masked_latents: Tensor, guidance: bool) -> Tensor:
    """9.4 · What an inpainting UNet of 9 channels is given: latents, mask, masked latents.

    scaled: (B, 4, h, w), after scale_model_input. mask: (M, 1, H, W), in [0, 1], of the picture's
    size: made 0 or 1 (0.5 is 1) and brought to (h, w) by F.interpolate as it comes, "nearest".
    masked_latents: (K, 4, h, w), of the hidden picture. M and K divide B, and their rows are
    repeated as a whole, [a, b, a, b]; otherwise ValueError. Returns (B, 9, h, w) in scaled's
    dtype; with guidance (2·B, 9, h, w), everything twice.

    Source: StableDiffusionInpaintPipeline.prepare_mask_latents, and its loop.

    >>> latents, mask = torch.full((1, 4, 1, 2), 5.0), torch.tensor([[[[0.5, 0.2]]]])
    >>> inpaint_input(latents, mask, latents + 2, False)[0, 3:6, 0].tolist()
    [[5.0, 5.0], [1.0, 0.0], [7.0, 7.0]]
    """
    ### BEGIN SOLUTION
    batch = len(scaled)
    for rows in (mask, masked_latents):
        if batch % len(rows):
            raise ValueError(f"{len(rows)} rows cannot be repeated for {batch} latents")
    hard = (mask >= 0.5).to(scaled.dtype)
    small = F.interpolate(hard, size=scaled.shape[-2:])
    shown = small.repeat(batch // len(small), 1, 1, 1)
    around = masked_latents.repeat(batch // len(masked_latents), 1, 1, 1)
    joined = torch.cat([scaled, shown, around], dim=1)
    return torch.cat([joined, joined]) if guidance else joined
    ### END SOLUTION


def inpaint_loop(
    denoiser: Callable[[Tensor, Any], Tensor],
    scheduler: Any,
    original: Tensor,
    noise: Tensor,
    mask: Tensor,
    steps: int,
) -> Tensor:
    """9.5 · Inpainting with a plain model: after each step what is known is written back.

    denoiser(latents, t): one call for each timestep. original: (B, C, h, w), clean latents. noise:
    the same shape, standard normal; times init_noise_sigma it is where the run begins. mask: (B or
    1, 1, h, w), 1 is to be repainted and 0 is known. Returns (B, C, h, w).

    After every step the known part becomes that of the original at the noise of the *next* timestep
    in the scheduler's list (add_noise), always with the same `noise`; after the last step, of the
    clean original.

    Source: StableDiffusionInpaintPipeline.__call__ with a UNet of 4 channels, at strength 1.

    >>> from types import SimpleNamespace as Box
    >>> scheduler = Box(timesteps=torch.tensor([2.0, 1.0]), init_noise_sigma=3.0)
    >>> scheduler.set_timesteps, scheduler.scale_model_input = lambda n: None, lambda x, t: x
    >>> scheduler.step = lambda output, t, x: Box(prev_sample=x + output)
    >>> scheduler.add_noise = lambda original, noise, timesteps: original + timesteps * noise
    >>> shown = []
    >>> denoiser = lambda x, t: shown.append(x.tolist()) or torch.ones(2)
    >>> original, mask = torch.tensor([10.0, 10.0]), torch.tensor([0.0, 1.0])
    >>> inpaint_loop(denoiser, scheduler, original, torch.ones(2), mask, 2).tolist(), shown
    ([10.0, 5.0], [[3.0, 3.0], [11.0, 4.0]])
    """
    ### BEGIN SOLUTION
    scheduler.set_timesteps(steps)
    timesteps = scheduler.timesteps
    latents = noise * scheduler.init_noise_sigma
    for i, t in enumerate(timesteps):
        prediction = denoiser(scheduler.scale_model_input(latents, t), t)
        latents = scheduler.step(prediction, t, latents).prev_sample
        known = original
        if i + 1 < len(timesteps):
            known = scheduler.add_noise(original, noise, timesteps[i + 1 : i + 2])
        latents = (1 - mask) * known + mask * latents
    return latents
    ### END SOLUTION


def chain_guidance(predictions: Sequence[Tensor], scales: Sequence[float]) -> Tensor:
    """9.6 · Guidance by one condition after another: p₀ + Σ sᵢ·(pᵢ − pᵢ₋₁).

    predictions: p₀ to pₙ, of one shape, each of one condition more than the one before: for
    InstructPix2Pix nothing, the picture, the picture and the text. scales: s₁ to sₙ; another
    number of them than one less than of predictions: ValueError.

    Source: Brooks and others 2023 (InstructPix2Pix, arXiv 2211.09800), section 3.2.1;
    StableDiffusionInstructPix2PixPipeline, which has them in another order.

    >>> chain_guidance([torch.tensor(1.0), torch.tensor(2.0), torch.tensor(5.0)], [1.5, 7.0]).item()
    23.5
    """
    ### BEGIN SOLUTION
    if len(scales) != len(predictions) - 1:
        raise ValueError(f"{len(scales)} scales for {len(predictions)} predictions")
    guided = predictions[0]
    for i, scale in enumerate(scales, start=1):
        guided = guided + scale * (predictions[i] - predictions[i - 1])
    return guided
    ### END SOLUTION


def sum_guidance(uncond: Tensor, conds: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    """9.6 · Guidance by several conditions side by side: u + Σ wᵢ·(cᵢ − u).

    uncond: the prediction without a condition. conds: one for each condition, of its shape.
    weights: one for each of them, else ValueError.

    Source: Liu and others 2022 (Composable Diffusion, arXiv 2206.01714); with one condition
    ClassifierFreeGuidance.

    >>> sum_guidance(torch.tensor(1.0), [torch.tensor(2.0), torch.tensor(5.0)], [1.5, 7.0]).item()
    30.5
    """
    ### BEGIN SOLUTION
    if len(weights) != len(conds):
        raise ValueError(f"{len(weights)} weights for {len(conds)} conditions")
    total = uncond
    for weight, cond in zip(weights, conds, strict=True):
        total = total + weight * (cond - uncond)
    return total
    ### END SOLUTION


def controlled_loop(
    unet: Callable[[Tensor, Any, Tensor, list[Tensor] | None, Tensor | None], Tensor],
    control: Callable[[int, Tensor, Any, Tensor], tuple[Sequence[Tensor], Tensor]],
    scheduler: Any,
    latents: Tensor,
    embeds: Tensor,
    controls: Sequence[Mapping[str, float]],
    scale: float,
    steps: int,
) -> Tensor:
    """9.7 · The guided loop with several ControlNets, each with a weight and a window of its own.

    latents: (B, C, h, w), standard normal. embeds: (2·B, L, D), the negative half first. controls:
    one {"weight", "start", "end"} for each control k. scale: of guidance, u + scale·(c − u).
    Returns (B, C, h, w).

    In iteration i of n, the number of timesteps, control k is open when i / n ≥ start and
    (i + 1) / n ≤ end. Then control(k, x, t, embeds) gives (down residuals, mid residual), not yet
    weighted. Both are multiplied by its weight, and those of all open controls are added up, for
    unet(x, t, embeds, down, mid). None open: down and mid are None. x is the state twice, scaled
    for the network, for the controls and the unet alike.

    A control that is closed, or whose weight is 0, is not called. With start = end it is never
    open. start > end, or one of them outside 0 to 1: ValueError.

    Source: StableDiffusionControlNetPipeline.__call__ and MultiControlNetModel.forward, which call
    every control in every iteration and multiply by 0.

    >>> from types import SimpleNamespace as Box
    >>> scheduler = Box(timesteps=[2, 1], init_noise_sigma=1.0, set_timesteps=lambda n: None)
    >>> scheduler.scale_model_input = lambda x, t: x
    >>> scheduler.step = lambda output, t, x: Box(prev_sample=x - output)
    >>> control = lambda k, x, t, embeds: ([x], embeds * (k + 1))
    >>> unet = lambda x, t, embeds, down, mid: embeds if mid is None else mid
    >>> first = {"weight": 2.0, "start": 0.0, "end": 0.5}
    >>> never = {"weight": 0.0, "start": 0.0, "end": 1.0}
    >>> x, embeds = torch.tensor([10.0]), torch.tensor([0.0, 1.0])
    >>> controlled_loop(unet, control, scheduler, x, embeds, [first, never], 1.0, 2).tolist()
    [7.0]
    """
    ### BEGIN SOLUTION
    for entry in controls:
        if not 0 <= entry["start"] <= entry["end"] <= 1:
            raise ValueError(f"a window from {entry['start']} to {entry['end']}")
    scheduler.set_timesteps(steps)
    n = len(scheduler.timesteps)
    state = latents * scheduler.init_noise_sigma
    for i, t in enumerate(scheduler.timesteps):
        seen = scheduler.scale_model_input(torch.cat([state, state]), t)
        down, mid = None, None
        for k, entry in enumerate(controls):
            opened = i / n >= entry["start"] and (i + 1) / n <= entry["end"]
            weight = entry["weight"]
            if not opened or weight == 0:
                continue
            parts, middle = control(k, seen, t, embeds)
            if down is None:
                down, mid = [weight * part for part in parts], weight * middle
            else:
                down = [total + weight * part for total, part in zip(down, parts, strict=True)]
                mid = mid + weight * middle
        uncond, cond = unet(seen, t, embeds, down, mid).chunk(2)
        state = scheduler.step(uncond + scale * (cond - uncond), t, state).prev_sample
    return state
    ### END SOLUTION
