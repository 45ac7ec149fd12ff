"""Lab 04 in numpy and float64."""

import numpy as np
import torch


def _array(tensor):
    return tensor.detach().cpu().double().numpy()


def _like(array, tensor):
    return torch.from_numpy(np.asarray(array, np.float64)).to(tensor.device, tensor.dtype)


def combine(uncond, cond, scale):
    weights = np.array([1.0 - scale, scale])
    both = np.stack([_array(uncond), _array(cond)])
    return _like(np.tensordot(weights, both, axes=1), cond)


def guidance_batch(latents, negative_embeds, prompt_embeds):
    x, texts = _array(latents), (_array(negative_embeds), _array(prompt_embeds))
    tiled = np.tile(x, (2,) + (1,) * (x.ndim - 1))
    return _like(tiled, latents), _like(np.concatenate(texts, axis=0), prompt_embeds)


def guided_prediction(denoiser, latents, t, negative_embeds, prompt_embeds, scale):
    guiding = scale > 1
    if guiding:
        inputs, embeds = guidance_batch(latents, negative_embeds, prompt_embeds)
    else:
        inputs, embeds = latents, prompt_embeds
    answer = denoiser(inputs, t, embeds)
    if guiding:
        halves = _array(answer).reshape(2, len(latents), *answer.shape[1:])
        answer = _like(halves[0] + np.float64(scale) * np.diff(halves, axis=0)[0], answer)
    return answer


def rescale_guidance(guided, cond, rescale):
    x, y = _array(guided), _array(cond)
    rows, wanted = x.reshape(len(x), -1), y.reshape(len(y), -1).std(axis=1)
    actual = rows.std(axis=1)
    ratio = np.ones_like(actual)
    np.divide(wanted, actual, out=ratio, where=actual > 0)
    return _like((rows * (1 + rescale * (ratio - 1))[:, None]).reshape(x.shape), guided)


def guided_sample(denoiser, plan, noise, negative_embeds, prompt_embeds, scale, steps):
    plan.set_timesteps(steps, device=noise.device)
    state = _array(noise) * float(plan.init_noise_sigma)
    for moment in plan.timesteps:
        x = _like(state, noise)
        seen = plan.scale_model_input(sample=x, timestep=moment)
        guided = guided_prediction(denoiser, seen, moment, negative_embeds, prompt_embeds, scale)
        state = _array(plan.step(model_output=guided, timestep=moment, sample=x).prev_sample)
    return _like(state, noise)


def guide_learned_sigma(output, scale):
    rows, channels, *sides = output.shape
    cut = _array(output).reshape(2, rows // 2, 2, channels // 2, *sides)
    uncond, cond = cut[:, :, 0]
    return _like(uncond * (1 - scale) + cond * scale, output)
