"""Lab 04 in plain Python: nested lists, loops and `math`; torch only carries values in and out."""

import math

import torch


def _flat(tensor):
    return [float(x) for x in tensor.reshape(-1).tolist()]


def _like(numbers, tensor):
    result = torch.tensor(numbers, dtype=torch.float64).reshape(tensor.shape)
    return result.to(device=tensor.device, dtype=tensor.dtype)


def _joined(first, second):
    rows = first.tolist() + second.tolist()
    return torch.tensor(rows, dtype=first.dtype, device=first.device)


def combine(uncond, cond, scale):
    pairs = zip(_flat(uncond), _flat(cond), strict=True)
    return _like([(1 - scale) * u + scale * c for u, c in pairs], uncond)


def guidance_batch(latents, negative_embeds, prompt_embeds):
    return [_joined(latents, latents), _joined(negative_embeds, prompt_embeds)]


def guided_prediction(network, latents, t, negative, prompt, scale):
    if not scale > 1:
        return network(latents, t, prompt)
    latents, embeds = guidance_batch(latents, negative, prompt)
    answer = network(latents, t, embeds)
    images = len(answer) // 2
    rows = [combine(answer[i], answer[images + i], scale) for i in range(images)]
    return torch.stack(rows)


def _deviation(numbers):
    mean = math.fsum(numbers) / len(numbers)
    return math.sqrt(math.fsum((x - mean) ** 2 for x in numbers) / (len(numbers) - 1))


def rescale_guidance(guided, cond, rescale):
    samples = []
    for mine, target in zip(guided, cond, strict=True):
        numbers = _flat(mine)
        deviation = _deviation(numbers)
        if deviation > 0:
            ratio = _deviation(_flat(target)) / deviation
            numbers = [x * (rescale * ratio + 1 - rescale) for x in numbers]
        samples.append(numbers)
    return _like(samples, guided)


def guided_sample(
    denoiser, scheduler, latents, negative_embeds, prompt_embeds, scale, num_inference_steps
):
    scheduler.set_timesteps(num_inference_steps=num_inference_steps)
    size = float(scheduler.init_noise_sigma)
    latents = _like([x * size for x in _flat(latents)], latents)
    moments = scheduler.timesteps
    i = 0
    while i < len(moments):
        shown = scheduler.scale_model_input(latents, moments[i])
        prediction = guided_prediction(
            denoiser, shown, moments[i], negative_embeds, prompt_embeds, scale
        )
        latents = scheduler.step(prediction, moments[i], latents)["prev_sample"]
        i += 1
    return latents


def guide_learned_sigma(output, scale):
    images, channels = len(output) // 2, len(output[0]) // 2
    result = []
    for image in range(images):
        uncond, cond = output[image], output[images + image]
        result.append([combine(uncond[k], cond[k], scale).tolist() for k in range(channels)])
    return torch.tensor(result, dtype=output.dtype, device=output.device)
