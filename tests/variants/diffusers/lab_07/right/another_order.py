"""Lab 07 with other means of torch: complex waves, unfold, fused attention; views are returned."""

import torch
from torch import nn


def timestep_embedding(when, width, flipped, less):
    pairs = width // 2
    turning = torch.logspace(0, -4 * (pairs - 1) / (pairs - less), pairs, dtype=torch.float64)
    points = torch.polar(
        torch.ones(len(when), pairs, dtype=torch.float64, device=when.device),
        torch.outer(when.double(), turning.to(when.device)),
    )
    result = torch.zeros(len(when), width, device=when.device)
    result[:, :pairs], result[:, pairs : 2 * pairs] = points.imag, points.real
    if flipped:
        result[:, : 2 * pairs] = result[:, : 2 * pairs].roll(pairs, dims=1)
    return result


def _linear(name, weights):
    weight = weights[name + ".weight"]
    module = nn.Linear(weight.shape[1], weight.shape[0], bias=name + ".bias" in weights)
    own = {key.rsplit(".", 1)[1]: x for key, x in weights.items() if key.rsplit(".", 1)[0] == name}
    module.load_state_dict(own)
    return module.to(weight.device)


def cross_attention(queries_from, others, weights, number, allowed):
    others = queries_from if others is None else others
    sources = {"to_q": queries_from, "to_k": others, "to_v": others}
    q, k, v = (
        torch.stack(_linear(name, weights)(source).tensor_split(number, dim=-1), dim=1)
        for name, source in sources.items()
    )
    if allowed is not None:
        allowed = allowed[:, None, None].expand(-1, number, q.shape[2], -1)
    found = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
    return _linear("to_out.0", weights)(torch.cat(found.unbind(1), dim=-1))


def patchify(images, edge):
    columns = nn.functional.unfold(images, edge, stride=edge)  # (B, c·p·q, N)
    split = columns.unflatten(1, (images.shape[1], edge * edge))
    return split.permute(0, 3, 2, 1).flatten(2)


def unpatchify(row, edge, rows_of_latents, columns_of_latents):
    split = row.unflatten(2, (edge * edge, -1)).permute(0, 3, 2, 1).flatten(1, 2)
    size = (rows_of_latents, columns_of_latents)
    return nn.functional.fold(split, size, edge, stride=edge)


def _standard(x, epsilon):
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    return (x - mean) * torch.rsqrt(variance + epsilon)


def adaln_zero(x, about, matrix, offset):
    gate = about * torch.sigmoid(about)
    table = torch.addmm(offset, gate, matrix.T).unflatten(1, (6, 1, -1))
    shift, scale, *others = table.unbind(1)
    plain = _standard(x, 1e-6)
    return (torch.addcmul(shift + plain, plain, scale), *(other.squeeze(1) for other in others))


def dit_block(x, about, weights, number):
    def of(prefix):
        return {k[len(prefix) :]: v for k, v in weights.items() if k.startswith(prefix)}

    first = adaln_zero(x, about, *(of("norm1.linear.")[k] for k in ("weight", "bias")))
    open_a, move, stretch, open_m = (part.unsqueeze(1) for part in first[1:])
    x = torch.addcmul(x, open_a, cross_attention(first[0], None, of("attn1."), number, None))
    second = _standard(x, 1e-5)
    second = second + stretch * second + move
    network = nn.Sequential(
        _linear("0.proj", of("ff.net.")), nn.GELU("tanh"), _linear("2", of("ff.net."))
    )
    return torch.addcmul(x, open_m, network(second))


def unet_up_input(flowing, waiting):
    together = torch.hstack((flowing, waiting[-1]))
    return together.permute(1, 2, 3, 0).contiguous().permute(3, 0, 1, 2), waiting[:-1]


def size_conditioning(was, cut, wanted, width):
    six = torch.tensor(was + cut + wanted)
    clocks = timestep_embedding(six, width, True, 0)
    return six.float().unsqueeze(0), clocks.view(1, 6 * width)
