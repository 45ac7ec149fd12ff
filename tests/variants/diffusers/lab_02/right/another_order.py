"""Lab 02 in torch by other routes: in units of x / √ᾱ, views, sorting, and no formula twice."""

import torch


def _noise_level(bar):
    """σ, the noise for each unit of signal, of the level ᾱ."""
    return torch.rsqrt(bar / (1 - bar))


def predict_epsilon(out, noisy, bar, kind):
    match kind:
        case "epsilon":
            return out.flip(-1).flip(-1)
        case "sample":
            return (noisy / bar.sqrt() - out) / _noise_level(bar)
        case "v_prediction":
            return (
                torch.lerp(out, noisy, 0.5)
                .mul(2)
                .sub(noisy * (1 - (1 - bar).sqrt()) + out * (1 - bar.sqrt()))
            )
    raise ValueError(kind)


def predict_original(out, noisy, bar, kind):
    if kind == "sample":
        return out.transpose(0, -1).contiguous().transpose(0, -1)
    remainder = (
        noisy.double()
        - predict_epsilon(out.double(), noisy.double(), bar.double(), kind)
        * (1 - bar.double()).sqrt()
    )
    return remainder.div(bar.double().sqrt()).to(noisy.dtype)


def ddim_step(out, noisy, bar, bar_to, kind, randomness, fresh):
    bar, bar_to = bar.double(), bar_to.double()
    clean = predict_original(out.double(), noisy.double(), bar, kind)
    stale = predict_epsilon(out.double(), noisy.double(), bar, kind)
    level, level_to = ((1 - b) / b for b in (bar, bar_to))  # σ²
    added = randomness**2 * level_to * (1 - level_to / level)
    moved = clean + (level_to - added).sqrt() * stale
    if fresh is not None:
        moved = torch.addcmul(moved, added.sqrt().expand_as(moved), fresh.double())
    return (moved * bar_to.sqrt()).to(noisy.dtype)


def ddpm_step(out, noisy, start, stop, table, kind, which, fresh):
    """Equation 11 of the paper: remove noise from x, no x0 in sight."""
    bar = table[start].double()
    bar_to = torch.ones((), dtype=torch.float64) if stop < 0 else table[stop].double()
    alpha = bar / bar_to
    stale = predict_epsilon(out.double(), noisy.double(), bar, kind)
    mean = (noisy.double() - (1 - alpha) / (1 - bar).sqrt() * stale) / alpha.sqrt()
    variance = {
        "fixed_small": (1 - alpha) * (1 - bar_to) / (1 - bar),
        "fixed_large": (1 - alpha) * (stop >= 0),
    }[which]
    return (mean + fresh * variance.sqrt()).to(noisy.dtype)


def previous_alpha_bar(table, where, ends_in_one):
    longer = torch.cat((table.new_tensor([1.0 if ends_in_one else float(table[0])]), table))
    return longer[max(where + 1, 0)]


def clip_prediction(guess, most):
    return torch.where(guess.abs() > most, guess.sign() * most, guess)


def dynamic_threshold(guess, share, most):
    rows = guess.to(torch.float32).reshape(guess.size(0), -1)
    ordered = rows.abs().sort(dim=1).values.double()
    place = share * (ordered.size(1) - 1)
    bound = torch.lerp(ordered[:, int(place)], ordered[:, int(place) + 1], place - int(place))
    bound = torch.clamp(bound, min=1.0).clamp(max=most).unsqueeze(1)
    columns = (rows / bound).clamp(-1, 1).t()  # transposed, and back as a view
    return columns.t().unflatten(1, guess.shape[1:]).to(guess.dtype)


def learned_variance(stacked, start, stop, table):
    half = stacked.unflatten(1, (2, -1)).movedim(1, 0)
    bar, bar_to = table[start].double(), table[stop].double()
    top = (1 - bar / bar_to).log()
    bottom = top + torch.log1p(-bar_to) - torch.log1p(-bar)
    return half[0], torch.lerp(bottom, top, half[1].double().add(1).div(2)).exp().to(stacked.dtype)
