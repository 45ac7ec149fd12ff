"""Lab 07 in numpy, in float64, and only the results in float32."""

import numpy as np
import torch


def _array(tensor):
    return tensor.detach().cpu().numpy().astype(np.float64)


def _tensor(array, like):
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32)).to(like.device)


def _embedded(t, d, cosines, shift):
    h = d // 2
    period = np.power(10000.0, np.arange(h) / (h - shift))
    phase = t[..., None] / period
    columns = [np.sin(phase), np.cos(phase)]
    if cosines:
        columns.reverse()
    if d % 2:
        columns.append(np.zeros((len(t), 1)))
    return np.concatenate(columns, axis=-1)


def timestep_embedding(t, d, cosines, shift):
    return _tensor(_embedded(_array(t), d, cosines, shift), t)


def _layer(x, w, name):
    y = x @ _array(w[name + ".weight"]).T
    return y + _array(w[name + ".bias"]) if name + ".bias" in w else y


def _attention(x, y, w, count, seen):
    q, k, v = _layer(x, w, "to_q"), _layer(y, w, "to_k"), _layer(y, w, "to_v")
    q, k, v = (np.stack(np.split(part, count, axis=-1), axis=1) for part in (q, k, v))
    scores = np.einsum("bhnd,bhmd->bhnm", q, k) / np.sqrt(q.shape[3])
    if seen is not None:
        scores = np.where(seen[:, np.newaxis, np.newaxis, :], scores, -np.inf)
    shares = np.exp(scores - scores.max(axis=3, keepdims=True))
    shares /= shares.sum(axis=3, keepdims=True)
    gathered = np.einsum("bhnm,bhmd->bnhd", shares, v)
    return _layer(gathered.reshape(*gathered.shape[:2], -1), w, "to_out.0")


def cross_attention(x, y, w, count, seen):
    a = _array(x)
    b = a if y is None else _array(y)
    seen = None if seen is None else seen.cpu().numpy()
    return _tensor(_attention(a, b, w, count, seen), x)


def patchify(z, k):
    a = z.cpu().numpy()
    n, _, h, w = a.shape
    rows = np.split(a, h // k, axis=2)
    squares = [np.split(strip, w // k, axis=3) for strip in rows]
    tokens = [np.moveaxis(square, 1, 3).reshape(n, -1) for strip in squares for square in strip]
    return torch.from_numpy(np.stack(tokens, axis=1)).to(z.device)


def unpatchify(t, k, h, w):
    a = t.cpu().numpy()
    columns = w // k
    squares = [
        np.moveaxis(a[:, i].reshape(a.shape[0], k, k, a.shape[2] // k**2), 3, 1)
        for i in range(a.shape[1])
    ]
    strips = [
        np.concatenate(squares[i : i + columns], axis=3) for i in range(0, len(squares), columns)
    ]
    return torch.from_numpy(np.concatenate(strips, axis=2)).to(t.device)


def _vectors(e, w, b):
    y = (e / (1 + np.exp(-e))) @ w.T + b
    return np.split(y[:, np.newaxis], 6, axis=2)


def _norm(x, shift, scale, eps):
    x = x - np.mean(x, axis=-1, keepdims=True)
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + eps) * (1 + scale) + shift


def adaln_zero(x, e, w, b):
    six = _vectors(_array(e), _array(w), _array(b))
    parts = [_norm(_array(x), six[0], six[1], 1e-6), *(part[:, 0] for part in six[2:])]
    return tuple(_tensor(part, x) for part in parts)


def dit_block(x, e, w, count):
    six = _vectors(_array(e), _array(w["norm1.linear.weight"]), _array(w["norm1.linear.bias"]))
    attention = {key.split(".", 1)[1]: w[key] for key in w if key.split(".")[0] == "attn1"}
    y = _array(x)
    read = _norm(y, six[0], six[1], 1e-6)
    y = y + _attention(read, read, attention, count, None) * six[2]
    u = _layer(_norm(y, six[3], six[4], 1e-5), w, "ff.net.0.proj")
    u = 0.5 * u * (1.0 + np.tanh(0.7978845608028654 * (u + 0.044715 * u**3)))
    return _tensor(y + _layer(u, w, "ff.net.2") * six[5], x)


def unet_up_input(x, kept):
    pair = [x.cpu().numpy(), kept[len(kept) - 1].cpu().numpy()]
    return torch.from_numpy(np.concatenate(pair, axis=1)).to(x.device), kept[: len(kept) - 1]


def size_conditioning(a, b, c, d):
    numbers = np.array([a, b, c], dtype=np.float64).reshape(6)
    waves = np.concatenate([_embedded(numbers[i : i + 1], d, True, 0) for i in range(6)], axis=1)
    plain = torch.zeros(1)
    return [_tensor(numbers[np.newaxis], plain), _tensor(waves, plain)]
