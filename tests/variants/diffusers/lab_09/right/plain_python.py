"""Lab 09 with loops and Python numbers."""

import torch


def control_image(picture, rows, twice):
    pictures = picture.tolist() if picture.ndim == 4 else [picture.tolist()]
    share = rows / len(pictures)
    if share != int(share):
        raise ValueError("some latents would have no picture")
    result = []
    for _ in range(2 if twice else 1):
        for one in pictures:
            planes = [[[pixel[c] / 255 for pixel in line] for line in one] for c in range(3)]
            result += [planes] * int(share)
    return torch.tensor(result)


def zero_conv_residuals(features, layers, strength):
    results = []
    for i in range(len(features)):
        weight, bias = layers[i]
        feature = features[i].double()
        planes = []
        for o in range(len(weight)):
            row = weight[o].double()
            planes.append((float(bias[o]) + (row * feature).sum(1)) * strength)
        results.append(torch.stack(planes, dim=1).float())
    return tuple(results[:-1]), results[-1]


def add_residuals(notes, inside, middle, down, mid):
    missing = [value is None for value in (down, mid)]
    if any(missing) and not all(missing):
        raise ValueError("one kind of residual is missing")
    said = middle(inside)
    if all(missing):
        return notes, said
    if len(down) < len(notes) or len(down) > len(notes):
        raise ValueError("not as many residuals as skips")
    result = []
    for k in range(len(notes)):
        copy = notes[k].clone()
        copy += down[k]
        result.append(copy)
    return result, said + mid


def controlnet_keep(count, begin, stop):
    kept = []
    i = 0
    while i < count:
        if i >= begin * count and i + 1 <= stop * count:  # in turns, not in shares
            kept.append(1)
        else:
            kept.append(0)
        i += 1
    return kept


def guess_mode_scales(count):
    return torch.tensor([0.1 * 10 ** (k / count) for k in range(count + 1)])


def guess_mode_residuals(ones):
    result = []
    for one in ones:
        both = torch.zeros(2 * len(one), *one.shape[1:], device=one.device)
        for row in range(len(one)):
            both[len(one) + row] = one[row]
        result.append(both)
    return result


def multi_control(sets, strengths):
    if len(strengths) != len(sets):
        raise ValueError("each set has one strength")
    down, mid = None, None
    for (more_down, more_mid), strength in zip(sets, strengths, strict=True):
        if down is None:
            down = [tensor * strength for tensor in more_down]
            mid = more_mid * strength
            continue
        for k, tensor in enumerate(more_down):
            down[k] = down[k] + tensor * strength
        mid = mid + more_mid * strength
    return down, mid


def controlled_prediction(unet, controlnet, x, time, texts, picture, strength, guessing):
    if not guessing:
        shallow, deep = controlnet(x, time, texts, picture, strength)
        return unet(
            x,
            time,
            texts,
            mid_block_additional_residual=deep,
            down_block_additional_residuals=shallow,
        )
    half = len(x) // 2
    shallow, deep = controlnet(x[half:], time, texts[half:], picture, strength, guess_mode=True)
    shallow = [torch.cat([tensor.new_zeros(tensor.shape), tensor]) for tensor in shallow]
    deep = torch.cat([deep.new_zeros(deep.shape), deep])
    return unet(
        x,
        time,
        texts,
        down_block_additional_residuals=shallow,
        mid_block_additional_residual=deep,
    )
