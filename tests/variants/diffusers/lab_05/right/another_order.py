"""Lab 05 in torch by other routes: views, lerp, distributions, folds."""

import torch
import torch.nn.functional as F


def latent_shape(settings, images, rows, columns):
    halvings = len(settings["block_out_channels"]) - 1
    multiple = 1 << halvings
    h, missing_h = divmod(rows, multiple)
    w, missing_w = divmod(columns, multiple)
    if missing_h + missing_w:
        advice = f"{missing_h} rows and {missing_w} columns too many"
        raise ValueError(f"{advice}; make both a multiple of {multiple}.")
    return torch.Size([images, settings["latent_channels"], h, w])


def to_model_range(picture):
    x = torch.as_tensor(picture)
    x = x.unsqueeze(0) if x.ndim < 4 else x
    signed = x.double().mul(2).sub(255).div(255).float()
    return torch.einsum("bhwc->bchw", signed)


def to_image(decoded):
    levels = torch.lerp(torch.tensor(0.0), torch.tensor(255.0), decoded.cpu().add(1).div(2))
    whole = torch.clamp(torch.floor(levels + 0.5), min=0, max=255)
    return whole.type(torch.uint8).movedim(1, 3)  # a view, and a tensor instead of an array


def _normal(moments):
    b, twice, h, w = moments.shape
    mean, logvar = moments.view(b, 2, twice // 2, h, w).unbind(1)
    bounded = torch.minimum(torch.maximum(logvar, logvar.new_tensor(-30)), logvar.new_tensor(20))
    return torch.distributions.Normal(mean, torch.exp2(bounded * 0.5 / 0.6931471805599453))


def posterior(moments):
    distribution = _normal(moments.double())
    return distribution.mean.float(), distribution.stddev.float()


def sample(moments, z):
    distribution = _normal(moments.double())
    return torch.addcmul(distribution.loc, distribution.scale, z.double()).to(z.dtype)


def mode(moments):
    return moments.unflatten(1, (2, -1)).select(1, 0)


def kl(moments):
    standard = torch.distributions.Normal(0.0, 1.0)
    each = torch.distributions.kl_divergence(_normal(moments.double()), standard)
    return torch.einsum("bchw->b", each).to(moments.dtype)


def _has_statistics(config):
    pair = [getattr(config, f"latents_{name}", None) for name in ("mean", "std")]
    return None not in pair


def encode(autoencoder, pixels, z):
    moments = autoencoder.encode(pixels)
    draw = mode(moments) if z is None else sample(moments, z)
    config = autoencoder.config
    if _has_statistics(config):
        mean, std = torch.tensor(config.latents_mean), torch.tensor(config.latents_std)
        last = draw.movedim(1, 3)  # channels last: a plain vector lines up with them
        out = (last - mean.to(last)).div(std.to(last)).mul(config.scaling_factor)
        return out.movedim(3, 1)
    scale, shift = config.scaling_factor, config.shift_factor
    return draw * scale if shift is None else draw * scale - shift * scale


def decode(autoencoder, z):
    config = autoencoder.config
    inverse = 1 / config.scaling_factor
    if _has_statistics(config):
        stds = [inverse * std for std in config.latents_std]
        weight = torch.diag(torch.tensor(stds)).to(z)[:, :, None, None]
        z = F.conv2d(z, weight, torch.tensor(config.latents_mean).to(z))
    elif config.shift_factor is None:
        z = z * inverse
    else:
        z = torch.add(z * inverse, config.shift_factor)
    return torch.cat([autoencoder.decode(half) for half in z.split(2)])


def compression(settings, rows, columns, kind):
    f = 2 ** (len(settings["block_out_channels"]) - 1)
    picture = torch.empty(settings["in_channels"], rows, columns, dtype=kind, device="meta")
    small = torch.empty(
        settings["latent_channels"], rows // f, columns // f, dtype=kind, device="meta"
    )
    return picture.nbytes / small.nbytes, picture.nbytes, small.nbytes


def _even(*sides):
    for side in sides:
        if side % 2:
            raise ValueError(f"{side} is odd")


def pack(z):
    _even(*z.shape[-2:])
    return F.pixel_unshuffle(z, 2).flatten(-2).transpose(-1, -2)


def unpack(tokens, rows, columns):
    _even(rows, columns)
    return F.pixel_shuffle(tokens.mT.unflatten(2, (rows // 2, columns // 2)), 2)
