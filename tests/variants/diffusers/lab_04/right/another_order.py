"""Lab 04 in torch by other routes: lerp, stacked views, masks, the pipeline's own order."""

import torch


def combine(without, with_text, weight):
    return torch.lerp(without, with_text, weight)


def guidance_batch(x, negative, positive):
    doubled = x.unsqueeze(0).expand(2, *x.shape).flatten(0, 1)
    return doubled, torch.stack((negative, positive)).view(-1, *positive.shape[1:])


def guided_prediction(network, x, moment, negative, positive, weight):
    texts = [positive] if weight <= 1.0 else [negative, positive]
    answers = network(x.repeat(len(texts), 1, 1, 1), moment, torch.vstack(texts))
    branches = answers.unflatten(0, (len(texts), -1)).unbind(0)
    first, last = branches[0], branches[-1]
    return last.sub(last - first, alpha=1 - weight) if len(texts) > 1 else last


def rescale_guidance(prediction, target, share):
    rows, aims = prediction.flatten(1), target.flatten(1)
    variance = rows.var(dim=1, correction=0)
    spread = variance != 0
    result = rows.clone()
    gain = (aims.var(dim=1, correction=0)[spread] / variance[spread]).sqrt()
    result[spread] = torch.lerp(rows[spread], rows[spread] * gain[:, None], share)
    return result.view_as(prediction)


def guided_sample(network, plan, noise, negative, positive, weight, steps):
    plan.set_timesteps(steps)
    x = plan.init_noise_sigma * noise
    guiding = weight > 1
    texts = torch.cat((negative, positive), dim=0) if guiding else positive
    for _, moment in enumerate(plan.timesteps):
        stacked = torch.cat((x,) * 2) if guiding else x
        stacked = plan.scale_model_input(stacked, moment.item())
        answer = network(stacked, moment.item(), texts)
        if guiding:
            answer = torch.lerp(*answer.tensor_split(2), weight)
        (x,) = plan.step(answer, moment, x, return_dict=False)
    # A view with another memory layout is the same answer.
    return x.permute(2, 3, 0, 1).contiguous().permute(2, 3, 0, 1)


def guide_learned_sigma(answer, weight):
    by_channel = answer.movedim(1, -1)
    half = by_channel.shape[-1] // 2
    without, with_text = by_channel.narrow(-1, 0, half).tensor_split(2, dim=0)
    return (with_text * weight - without * (weight - 1)).movedim(-1, 1)
