"""Lab 07 with loops and Python floats."""

import math

import torch


def timestep_embedding(ts, size, cosine_first, minus):
    count = size // 2
    rows = []
    for t in ts.tolist():
        sines, cosines = [], []
        for i in range(count):
            angle = t / 10000 ** (i / (count - minus))
            sines.append(math.sin(angle))
            cosines.append(math.cos(angle))
        rows.append((cosines + sines if cosine_first else sines + cosines) + [0.0] * (size % 2))
    return torch.tensor(rows, device=ts.device)


def _apply(rows, weight, bias):
    weight = weight.tolist()
    bias = [0.0] * len(weight) if bias is None else bias.tolist()
    result = []
    for row in rows:
        result.append(
            [
                b + sum(w * x for w, x in zip(ws, row, strict=True))
                for ws, b in zip(weight, bias, strict=True)
            ]
        )
    return result


def _attend(image, text, w, heads, seen):
    """One sample: lists of rows in, a list of rows out."""
    q = _apply(image, w["to_q.weight"], w.get("to_q.bias"))
    k = _apply(text, w["to_k.weight"], w.get("to_k.bias"))
    v = _apply(text, w["to_v.weight"], w.get("to_v.bias"))
    d = len(q[0]) // heads
    gathered = []
    for row in q:
        out = []
        for h in range(heads):
            part = range(h * d, (h + 1) * d)
            scores = [sum(row[i] * key[i] for i in part) / d**0.5 for key in k]
            top = max(s for s, ok in zip(scores, seen, strict=True) if ok)
            shares = [math.exp(s - top) if ok else 0.0 for s, ok in zip(scores, seen, strict=True)]
            total = sum(shares)
            out += [sum(s * val[i] for s, val in zip(shares, v, strict=True)) / total for i in part]
        gathered.append(out)
    return _apply(gathered, w["to_out.0.weight"], w["to_out.0.bias"])


def cross_attention(image, text, w, heads, visible):
    if text is None:
        text = image
    results = []
    for b in range(len(image)):
        seen = [True] * text.shape[1] if visible is None else visible[b].tolist()
        results.append(_attend(image[b].tolist(), text[b].tolist(), w, heads, seen))
    return torch.tensor(results, device=image.device)


def patchify(x, s):
    result = []
    for picture in x:
        tokens = []
        for top in range(0, x.shape[2], s):
            for left in range(0, x.shape[3], s):
                token = []
                for y in range(top, top + s):
                    for z in range(left, left + s):
                        token += picture[:, y, z].tolist()
                tokens.append(token)
        result.append(tokens)
    return torch.tensor(result, dtype=x.dtype, device=x.device)


def unpatchify(tokens, s, tall, wide):
    channels = tokens.shape[2] // (s * s)
    result = tokens.new_empty(tokens.shape[0], channels, tall, wide)
    for y in range(tall):
        for z in range(wide):
            number = (y // s) * (wide // s) + z // s
            place = ((y % s) * s + z % s) * channels
            for c in range(channels):
                result[:, c, y, z] = tokens[:, number, place + c]
    return result


def _normal(row, eps):
    mean = sum(row) / len(row)
    variance = sum((x - mean) ** 2 for x in row) / len(row)
    return [(x - mean) / math.sqrt(variance + eps) for x in row]


def _six(vector, weight, bias):
    active = [x / (1 + math.exp(-x)) for x in vector]
    flat = _apply([active], weight, bias)[0]
    width = len(flat) // 6
    return [flat[i * width : (i + 1) * width] for i in range(6)]


def _modulate(rows, shift, scale, eps):
    return [
        [n + n * a + b for n, a, b in zip(_normal(row, eps), scale, shift, strict=True)]
        for row in rows
    ]


def adaln_zero(x, condition, weight, bias):
    normal, others = [], [[], [], [], []]
    for rows, vector in zip(x.tolist(), condition.tolist(), strict=True):
        six = _six(vector, weight, bias)
        normal.append(_modulate(rows, six[0], six[1], 1e-6))
        for kept, found in zip(others, six[2:], strict=True):
            kept.append(found)
    return [torch.tensor(part, device=x.device) for part in (normal, *others)]


def _gelu(x):
    return x / (1 + math.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def _gated(rows, gate, added):
    return [
        [x + g * a for x, g, a in zip(*pair, strict=True)]
        for pair in zip(rows, [gate] * len(rows), added, strict=True)
    ]


def dit_block(x, condition, w, heads):
    inner = {}
    for name in w:
        if name.startswith("attn1."):
            inner[name[6:]] = w[name]
    result = []
    for rows, vector in zip(x.tolist(), condition.tolist(), strict=True):
        six = _six(vector, w["norm1.linear.weight"], w["norm1.linear.bias"])
        read = _modulate(rows, six[0], six[1], 1e-6)
        rows = _gated(rows, six[2], _attend(read, read, inner, heads, [True] * len(read)))
        read = _modulate(rows, six[3], six[4], 1e-5)
        wide = _apply(read, w["ff.net.0.proj.weight"], w["ff.net.0.proj.bias"])
        wide = [[_gelu(y) for y in row] for row in wide]
        narrow = _apply(wide, w["ff.net.2.weight"], w["ff.net.2.bias"])
        result.append(_gated(rows, six[5], narrow))
    return torch.tensor(result, dtype=x.dtype, device=x.device)


def unet_up_input(x, stack):
    stack = list(stack)
    last = stack.pop()
    own, more = x.shape[1], last.shape[1]
    joined = torch.empty(x.shape[0], own + more, *x.shape[2:], device=x.device)
    for c in range(own + more):
        joined[:, c] = x[:, c] if c < own else last[:, c - own]
    return joined, stack


def size_conditioning(first, corner, wanted, size):
    six = []
    for pair in (first, corner, wanted):
        six += [float(pair[0]), float(pair[1])]
    numbers = []
    for value in six:
        angles = [value / 10000 ** (2 * i / size) for i in range(size // 2)]
        numbers += [math.cos(a) for a in angles] + [math.sin(a) for a in angles]
    return torch.tensor([six]), torch.tensor([numbers])
