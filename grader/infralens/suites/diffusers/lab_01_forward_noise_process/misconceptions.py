"""Lab 01: wrong answers that people really give, the shortest code beside its sentence."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from infralens.examiner import misconception

PROCESS = "handbook/process.md"
OBJECTIVE = "handbook/objective.md"
FORWARD = f"{PROCESS}#the-forward-process"
HALF = f"{OBJECTIVE}#the-pair-in-half-precision"
V = f"{OBJECTIVE}#v-prediction"
FLOW = f"{OBJECTIVE}#flow"
RATIO = f"{OBJECTIVE}#signal-to-noise-ratio"
ZERO = f"{OBJECTIVE}#zero-terminal-snr"
TARGETS = f"{OBJECTIVE}#four-targets"


def even(total: int, start: float, end: float, power: float = 1) -> Tensor:
    """Evenly spaced powers, and back."""
    return torch.linspace(start**power, end**power, total) ** (1 / power)


def lost(total: int, cap: float = 0.999, offset: float = 0.008) -> Tensor:
    """The cosine schedule."""
    moments = (torch.arange(total + 1).double() / total + offset) / (1 + offset)
    kept = torch.cos(moments * math.pi / 2) ** 2
    return (1 - kept[1:] / kept[:-1]).clamp(max=cap).float()


def scheduled(name: str, total: int, start: float, end: float) -> Tensor:
    """The compact twin of 1.1."""
    if name not in ("linear", "scaled_linear", "squaredcos_cap_v2"):
        raise ValueError(name)
    if name == "squaredcos_cap_v2":
        return lost(total)
    return even(total, start, end, 1 if name == "linear" else 0.5)


def inside(t: Tensor, table: Tensor) -> Tensor:
    """The timesteps, when all of them are in the table."""
    if (t < 0).any() or (t >= table.numel()).any():
        raise ValueError("outside the table")
    return t


def beside(values: Tensor, like: Tensor) -> Tensor:
    """One value a sample, with the axes of `like`."""
    return values.view(values.shape + (1,) * (like.dim() - 1))


def share(t: Tensor, table: Tensor, like: Tensor) -> Tensor:
    """The alphas_cumprod of each sample, shaped to multiply it."""
    return beside(table[inside(t, table)], like)


def alphas(table: Tensor) -> Tensor:
    """The single-step alphas that a table of cumulative ones is made of."""
    return torch.cat([table[:1], table[1:] / table[:-1]])


@misconception("1.1", "linear-for-scaled-linear", replaces="betas", reads=FORWARD)
def plain_linear(name: str, total: int, start: float, end: float) -> Tensor:
    """scaled_linear was answered with evenly spaced betas. It spaces their roots evenly and squares
    them. (What Stable Diffusion's own code calls "linear" is diffusers' scaled_linear.)"""
    return scheduled("linear" if name == "scaled_linear" else name, total, start, end)


@misconception("1.1", "scaled-for-every-linear", replaces="betas", reads=FORWARD)
def scaled_always(name: str, total: int, start: float, end: float) -> Tensor:
    """linear was answered with evenly spaced roots. That is scaled_linear; linear spaces the betas
    themselves."""
    return scheduled("scaled_linear" if name == "linear" else name, total, start, end)


@misconception("1.1", "roots-not-squared", replaces="betas", reads=FORWARD)
def still_roots(name: str, total: int, start: float, end: float) -> Tensor:
    """The evenly spaced roots were returned as they are. Square them: a beta is a variance."""
    made = scheduled(name, total, start, end)
    return made.sqrt() if name == "scaled_linear" else made


@misconception("1.1", "cosine-not-capped", replaces="betas", reads=FORWARD)
def uncapped(name: str, total: int, start: float, end: float) -> Tensor:
    """The last beta of the cosine schedule is 1, which leaves exactly nothing and is divided by
    later on. The schedule caps every beta at 0.999."""
    return lost(total, cap=1) if "cos" in name else scheduled(name, total, start, end)


@misconception("1.1", "cosine-without-offset", replaces="betas", reads=FORWARD)
def no_offset(name: str, total: int, start: float, end: float) -> Tensor:
    """The offset 0.008 is missing from the cosine. It keeps the first betas from being too small to
    be noticed."""
    return lost(total, offset=0) if "cos" in name else scheduled(name, total, start, end)


@misconception("1.1", "signal-for-betas", replaces="betas", reads=FORWARD)
def whole_loss(name: str, total: int, start: float, end: float) -> Tensor:
    """1 − f was returned for the cosine: all that is lost so far. A beta is what one step loses of
    what was left, 1 − f(next) / f(now)."""
    gone = 1 - (1 - lost(total, cap=1)).cumprod(0)
    return gone.clamp(max=0.999) if "cos" in name else scheduled(name, total, start, end)


@misconception("1.1", "unknown-schedule-accepted", replaces="betas", reads=FORWARD)
def any_name(name: str, total: int, start: float, end: float) -> Tensor:
    """An unknown name was answered with some schedule. A misspelt name must not train a model:
    raise a ValueError."""
    known = {"scaled_linear": 0.5, "squaredcos_cap_v2": 0}
    power = known.get(name, 1)
    return even(total, start, end, power) if power else lost(total)


@misconception("1.2", "betas-multiplied", replaces="alphas_cumprod", reads=FORWARD)
def betas_multiplied(betas: Tensor) -> Tensor:
    """The betas were multiplied. A beta is what a step loses; multiply what it keeps, 1 − β."""
    return betas.cumprod(0)


@misconception("1.2", "losses-added", replaces="alphas_cumprod", reads=FORWARD)
def losses_added(betas: Tensor) -> Tensor:
    """The losses were added up. Each step loses a share of what the steps before left, so the kept
    shares are multiplied."""
    return 1 - betas.cumsum(0)


@misconception("1.2", "single-steps", replaces="alphas_cumprod", reads=FORWARD)
def single_steps(betas: Tensor) -> Tensor:
    """1 − β is α, of one step. ᾱ is the product of all the α up to this step."""
    return 1 - betas


@misconception("1.2", "one-step-late", replaces="alphas_cumprod", reads=FORWARD)
def one_late(betas: Tensor) -> Tensor:
    """The table begins with 1, so every entry is one step late. Step 0 adds noise too: the first
    entry is 1 − β_0."""
    return torch.cat([torch.ones_like(betas[:1]), (1 - betas[:-1]).cumprod(0)])


@misconception("1.3", "cast-before-subtracting", replaces="add_noise", reads=HALF)
def cast_first(x: Tensor, noise: Tensor, t: Tensor, table: Tensor) -> Tensor:
    """ᾱ was cast to half precision before 1 − ᾱ was taken, as the library does. Near 1 half
    precision is coarse: ᾱ becomes 1 and the noise vanishes. Work out both factors in float32, then
    cast."""
    a = share(t, table, x).to(x.dtype)
    return a.sqrt() * x + (1 - a).sqrt() * noise


@misconception("1.3", "noise-level-on-the-wrong-axis", replaces="add_noise", reads=FORWARD)
def wrong_axis(x: Tensor, noise: Tensor, t: Tensor, table: Tensor) -> Tensor:
    """The (B,) factors met the samples' last axis. Broadcasting lines up axes from the right: give
    the factors the shape (B, 1, …, 1). (When B equals the width nothing fails, and every column
    gets a noise level instead of every sample.)"""
    a = table[inside(t, table)]
    return a.sqrt() * x + (1 - a).sqrt() * noise


@misconception("1.3", "images-only", replaces="add_noise", reads=FORWARD)
def images_only(x: Tensor, noise: Tensor, t: Tensor, table: Tensor) -> Tensor:
    """The factors were shaped for images, (B, 1, 1, 1). Vectors have fewer axes and video has one
    more: make as many as the sample has."""
    a = table[inside(t, table)].view(-1, 1, 1, 1)
    return (a.sqrt() * x + (1 - a).sqrt() * noise).to(x.dtype)


@misconception("1.3", "alpha-of-one-step", replaces="add_noise", reads=FORWARD)
def one_step_alpha(x: Tensor, noise: Tensor, t: Tensor, table: Tensor) -> Tensor:
    """α_t of a single step was used. After t steps the share of signal is ᾱ_t, the product of all
    of them, and that is what alphas_cumprod[t] already is."""
    a = share(t, alphas(table), x)
    return (a.sqrt() * x + (1 - a).sqrt() * noise).to(x.dtype)


@misconception("1.3", "accumulated-twice", replaces="add_noise", reads=FORWARD)
def twice_accumulated(x: Tensor, noise: Tensor, t: Tensor, table: Tensor) -> Tensor:
    """alphas_cumprod was multiplied up once more. It holds the products already: read it at t."""
    a = share(t, table.cumprod(0), x)
    return (a.sqrt() * x + (1 - a).sqrt() * noise).to(x.dtype)


@misconception("1.3", "variances-as-factors", replaces="add_noise", reads=FORWARD)
def no_roots(x: Tensor, noise: Tensor, t: Tensor, table: Tensor) -> Tensor:
    """ᾱ and 1 − ᾱ are shares of the variance. The tensors are multiplied by their roots."""
    a = share(t, table, x)
    return (a * x + (1 - a) * noise).to(x.dtype)


@misconception("1.3", "variance-for-the-noise", replaces="add_noise", reads=FORWARD)
def noise_without_root(x: Tensor, noise: Tensor, t: Tensor, table: Tensor) -> Tensor:
    """The noise was multiplied by 1 − ᾱ, its variance. Take the root here as well."""
    a = share(t, table, x)
    return (a.sqrt() * x + (1 - a) * noise).to(x.dtype)


@misconception("1.3", "factors-add-to-one", replaces="add_noise", reads=FORWARD)
def rest_of_root(x: Tensor, noise: Tensor, t: Tensor, table: Tensor) -> Tensor:
    """The noise was multiplied by 1 − √ᾱ. The squares of the two factors add to 1, not the factors:
    √(1 − ᾱ)."""
    root = share(t, table, x).sqrt()
    return (root * x + (1 - root) * noise).to(x.dtype)


@misconception("1.3", "signal-and-noise-exchanged", replaces="add_noise", reads=FORWARD)
def exchanged(x: Tensor, noise: Tensor, t: Tensor, table: Tensor) -> Tensor:
    """Signal and noise have each other's factor. ᾱ is near 1 at t = 0, where x_t is clean."""
    a = share(t, table, x)
    return (a.sqrt() * noise + (1 - a).sqrt() * x).to(x.dtype)


@misconception("1.3", "timesteps-counted-from-one", replaces="add_noise", reads=FORWARD)
def from_one(x: Tensor, noise: Tensor, t: Tensor, table: Tensor) -> Tensor:
    """The table was read one entry early. Papers count from 1, the library from 0: t = 0 is the
    first noisy step."""
    a = beside(table[inside(t, table) - 1], x)
    return (a.sqrt() * x + (1 - a).sqrt() * noise).to(x.dtype)


@misconception("1.3", "one-level-for-the-batch", replaces="add_noise", reads=FORWARD)
def first_level(x: Tensor, noise: Tensor, t: Tensor, table: Tensor) -> Tensor:
    """Every sample got the first sample's noise level. In training each has its own timestep."""
    a = table[inside(t, table)][0]
    return (a.sqrt() * x + (1 - a).sqrt() * noise).to(x.dtype)


@misconception("1.3", "result-left-in-float32", replaces="add_noise", reads=HALF)
def promoted(x: Tensor, noise: Tensor, t: Tensor, table: Tensor) -> Tensor:
    """The float32 factors made the result float32. Cast it to the dtype of the original: the
    network expects that one."""
    a = share(t, table, x)
    return a.sqrt() * x + (1 - a).sqrt() * noise


@misconception("1.3", "negative-timestep-wraps", replaces="add_noise", reads=FORWARD)
def wraps(x: Tensor, noise: Tensor, t: Tensor, table: Tensor) -> Tensor:
    """A negative timestep was read from the far end of the table, as the library does in silence.
    There is no such timestep: raise a ValueError."""
    inside(t.clamp(min=0), table)
    a = beside(table[t], x)
    return (a.sqrt() * x + (1 - a).sqrt() * noise).to(x.dtype)


@misconception("1.3", "timestep-beyond-the-table", replaces="add_noise", reads=FORWARD)
def beyond(x: Tensor, noise: Tensor, t: Tensor, table: Tensor) -> Tensor:
    """A timestep beyond the table was left to torch, which raises an IndexError. Check both ends
    yourself, T included, and raise a ValueError."""
    inside(t.clamp(max=0), table)
    a = beside(table[t], x)
    return (a.sqrt() * x + (1 - a).sqrt() * noise).to(x.dtype)


@misconception("1.4", "velocity-cast-before-subtracting", replaces="velocity", reads=HALF)
def v_cast_first(x: Tensor, noise: Tensor, t: Tensor, table: Tensor) -> Tensor:
    """ᾱ was cast to half precision before 1 − ᾱ was taken, as the library does. Near 1 it is
    rounded to 1, and the data's part of v vanishes. Work out both factors in float32, then cast."""
    a = share(t, table, x).to(x.dtype)
    return a.sqrt() * noise - (1 - a).sqrt() * x


@misconception("1.4", "velocity-on-the-wrong-axis", replaces="velocity", reads=FORWARD)
def v_wrong_axis(x: Tensor, noise: Tensor, t: Tensor, table: Tensor) -> Tensor:
    """The (B,) factors met the samples' last axis. Give them the shape (B, 1, …, 1), one pair of
    factors for each sample."""
    return table[t].sqrt() * noise - (1 - table[t]).sqrt() * x


@misconception("1.4", "velocity-of-images-only", replaces="velocity", reads=FORWARD)
def v_images_only(x: Tensor, noise: Tensor, t: Tensor, table: Tensor) -> Tensor:
    """The factors were shaped for images, (B, 1, 1, 1). Make as many axes as the sample has."""
    a = table[t].view(-1, 1, 1, 1)
    return (a.sqrt() * noise - (1 - a).sqrt() * x).to(x.dtype)


@misconception("1.4", "velocity-roles-exchanged", replaces="velocity", reads=V)
def v_roles(x: Tensor, noise: Tensor, t: Tensor, table: Tensor) -> Tensor:
    """Data and noise have each other's place. v is √ᾱ times the noise minus √(1 − ᾱ) times the
    data: near t = 0 it looks like the noise."""
    a = share(t, table, x)
    return (a.sqrt() * x - (1 - a).sqrt() * noise).to(x.dtype)


@misconception("1.4", "velocity-negated", replaces="velocity", reads=V)
def v_negated(x: Tensor, noise: Tensor, t: Tensor, table: Tensor) -> Tensor:
    """v has the wrong sign. It points from data to noise: plus √ᾱ·ε, minus √(1 − ᾱ)·x0."""
    a = share(t, table, x)
    return ((1 - a).sqrt() * x - a.sqrt() * noise).to(x.dtype)


@misconception("1.4", "velocity-with-a-plus", replaces="velocity", reads=V)
def v_plus(x: Tensor, noise: Tensor, t: Tensor, table: Tensor) -> Tensor:
    """The two parts were added. v stands at a right angle to x_t, which needs the minus."""
    a = share(t, table, x)
    return (a.sqrt() * noise + (1 - a).sqrt() * x).to(x.dtype)


@misconception("1.4", "velocity-without-roots", replaces="velocity", reads=V)
def v_no_roots(x: Tensor, noise: Tensor, t: Tensor, table: Tensor) -> Tensor:
    """ᾱ and 1 − ᾱ were used as they are. The factors of v are those of x_t: their roots."""
    a = share(t, table, x)
    return (a * noise - (1 - a) * x).to(x.dtype)


@misconception("1.4", "flow-velocity", replaces="velocity", reads=FLOW)
def v_of_flow(x: Tensor, noise: Tensor, t: Tensor, table: Tensor) -> Tensor:
    """ε − x0 is the velocity of flow matching. On the diffusion path the direction turns with t:
    √ᾱ·ε − √(1 − ᾱ)·x0."""
    return noise - x


@misconception("1.4", "velocity-left-in-float32", replaces="velocity", reads=HALF)
def v_promoted(x: Tensor, noise: Tensor, t: Tensor, table: Tensor) -> Tensor:
    """The float32 factors made the result float32. Cast it to the dtype of the original."""
    a = share(t, table, x)
    return a.sqrt() * noise - (1 - a).sqrt() * x


@misconception("1.5", "ratio-of-deviations", replaces="snr", reads=RATIO)
def of_deviations(t: Tensor, table: Tensor) -> Tensor:
    """This is the ratio of the two factors, √ᾱ / √(1 − ᾱ). The signal-to-noise ratio compares their
    variances: the square of it."""
    return (table[t] / (1 - table[t])).sqrt()


@misconception("1.5", "noise-to-signal", replaces="snr", reads=RATIO)
def upside_down(t: Tensor, table: Tensor) -> Tensor:
    """The fraction is upside down: this is σ², noise over signal. Clean samples have a high SNR."""
    return (1 - table[t]) / table[t]


@misconception("1.5", "logarithm-of-the-ratio", replaces="snr", reads=RATIO)
def log_ratio(t: Tensor, table: Tensor) -> Tensor:
    """This is the logarithm of the ratio. Papers plot that one; the weights of a loss use the ratio
    itself."""
    return (table[t] / (1 - table[t])).log()


@misconception("1.5", "share-of-signal", replaces="snr", reads=RATIO)
def only_share(t: Tensor, table: Tensor) -> Tensor:
    """ᾱ is the share of signal in the whole. The ratio divides it by the share of noise, 1 − ᾱ."""
    return table[t]


@misconception("1.5", "ratio-of-squares", replaces="snr", reads=RATIO)
def squared_again(t: Tensor, table: Tensor) -> Tensor:
    """ᾱ and 1 − ᾱ were squared. They are variances already: the squares of the factors of x_t."""
    return (table[t] / (1 - table[t])) ** 2


@misconception("1.5", "whole-table", replaces="snr", reads=RATIO)
def whole_table(t: Tensor, table: Tensor) -> Tensor:
    """The ratio of every timestep of the table was returned. Only the given timesteps are asked
    for, one number each."""
    return table / (1 - table)


def to_betas(kept: Tensor) -> Tensor:
    """The betas of a table of alphas_cumprod."""
    return (1 - alphas(kept)).float()


@misconception("1.6", "rescaled-without-root", replaces="zero_terminal_snr", reads=ZERO)
def on_the_squares(betas: Tensor) -> Tensor:
    """ᾱ itself was shifted and stretched. The paper does this to √ᾱ, the factor of the signal, and
    squares afterwards."""
    a = (1 - betas.double()).cumprod(0)
    return to_betas((a - a[-1]) * a[0] / (a[0] - a[-1]))


@misconception("1.6", "shifted-not-stretched", replaces="zero_terminal_snr", reads=ZERO)
def shifted_only(betas: Tensor) -> Tensor:
    """√ᾱ was shifted to end at 0, and the first step now loses far more than before. Stretch it so
    that the first value is what it was."""
    r = (1 - betas.double()).cumprod(0).sqrt()
    return to_betas((r - r[-1]) ** 2)


@misconception("1.6", "last-beta-forced", replaces="zero_terminal_snr", reads=ZERO)
def last_forced(betas: Tensor) -> Tensor:
    """Only the last beta was set to 1. Then one step drops from a little signal to none; the
    rescaling spreads the change over the whole schedule."""
    return torch.cat([betas[:-1], torch.ones_like(betas[-1:])])


@misconception("1.6", "not-squared-again", replaces="zero_terminal_snr", reads=ZERO)
def still_rooted(betas: Tensor) -> Tensor:
    """The rescaled √ᾱ was used as if it were ᾱ. Square it before taking the betas."""
    r = (1 - betas.double()).cumprod(0).sqrt()
    return to_betas((r - r[-1]) * r[0] / (r[0] - r[-1]))


@misconception("1.6", "table-for-betas", replaces="zero_terminal_snr", reads=ZERO)
def table_returned(betas: Tensor) -> Tensor:
    """This is the rescaled ᾱ. The function returns the betas that make it, 1 − ᾱ_t / ᾱ_(t−1)."""
    r = (1 - betas.double()).cumprod(0).sqrt()
    return (((r - r[-1]) * r[0] / (r[0] - r[-1])) ** 2).float()


@misconception("1.7", "flow-level-on-the-wrong-axis", replaces="flow_noise", reads=FORWARD)
def flow_wrong_axis(x: Tensor, noise: Tensor, sigmas: Tensor) -> Tensor:
    """The (B,) sigmas met the samples' last axis. Give them the shape (B, 1, …, 1)."""
    return (1 - sigmas) * x + sigmas * noise


@misconception("1.7", "flow-of-images-only", replaces="flow_noise", reads=FORWARD)
def flow_images_only(x: Tensor, noise: Tensor, sigmas: Tensor) -> Tensor:
    """The sigmas were shaped for images, (B, 1, 1, 1). Make as many axes as the sample has."""
    s = sigmas.view(-1, 1, 1, 1)
    return ((1 - s) * x + s * noise).to(x.dtype)


@misconception("1.7", "flow-ends-exchanged", replaces="flow_noise", reads=FLOW)
def flow_exchanged(x: Tensor, noise: Tensor, sigmas: Tensor) -> Tensor:
    """The ends are exchanged. In diffusers σ = 1 is noise and σ = 0 is data (some papers count the
    other way)."""
    s = beside(sigmas, x)
    return (s * x + (1 - s) * noise).to(x.dtype)


@misconception("1.7", "flow-with-roots", replaces="flow_noise", reads=FLOW)
def flow_roots(x: Tensor, noise: Tensor, sigmas: Tensor) -> Tensor:
    """The weights are roots, as on the diffusion path. Flow matching is a straight line: 1 − σ and
    σ themselves."""
    s = beside(sigmas, x)
    return ((1 - s).sqrt() * x + s.sqrt() * noise).to(x.dtype)


@misconception("1.7", "flow-noise-added", replaces="flow_noise", reads=FLOW)
def flow_added(x: Tensor, noise: Tensor, sigmas: Tensor) -> Tensor:
    """The noise was added to the whole signal, as Euler's samples have it. In flow matching the
    signal fades as the noise grows: (1 − σ)·x0."""
    return (x + beside(sigmas, x) * noise).to(x.dtype)


@misconception("1.7", "flow-left-in-float32", replaces="flow_noise", reads=HALF)
def flow_promoted(x: Tensor, noise: Tensor, sigmas: Tensor) -> Tensor:
    """The float32 sigmas made the result float32. Cast it to the dtype of the original."""
    s = beside(sigmas, x)
    return (1 - s) * x + s * noise


@misconception("1.7", "sigma-cast-before-subtracting", replaces="flow_noise", reads=HALF)
def flow_cast_first(x: Tensor, noise: Tensor, sigmas: Tensor) -> Tensor:
    """σ was cast to half precision before 1 − σ was taken, as the library does. Close to 1 it is
    rounded to 1, and the data vanishes. Take the difference in float32, cast after."""
    s = beside(sigmas, x).to(x.dtype)
    return (1 - s) * x + s * noise


def target(x: Tensor, noise: Tensor, t: Tensor, table: Tensor, name: str) -> Tensor:
    """The compact twin of 1.8."""
    if name not in ("epsilon", "sample", "v_prediction"):
        raise ValueError(name)
    a = beside(table[t], x)
    v = (a.sqrt() * noise - (1 - a).sqrt() * x).to(x.dtype)
    return {"epsilon": noise, "sample": x, "v_prediction": v}[name]


@misconception("1.8", "v-target-cast-before-subtracting", replaces="training_target", reads=HALF)
def v_target_cast_first(x: Tensor, noise: Tensor, t: Tensor, table: Tensor, name: str) -> Tensor:
    """ᾱ was cast to half precision before 1 − ᾱ was taken. Near 1 it is rounded to 1, and the
    data's part of v vanishes. Work out both factors in float32, cast after."""
    if name != "v_prediction":
        return target(x, noise, t, table, name)
    a = beside(table[t], x).to(x.dtype)
    return a.sqrt() * noise - (1 - a).sqrt() * x


@misconception("1.8", "noise-whatever-is-asked", replaces="training_target", reads=TARGETS)
def always_noise(x: Tensor, noise: Tensor, t: Tensor, table: Tensor, name: str) -> Tensor:
    """The noise was returned for every prediction_type. The network is asked for what its
    configuration says; nothing fails if the loss uses another target."""
    return target(x, noise, t, table, name) * 0 + noise


@misconception("1.8", "targets-exchanged", replaces="training_target", reads=TARGETS)
def targets_exchanged(x: Tensor, noise: Tensor, t: Tensor, table: Tensor, name: str) -> Tensor:
    """epsilon and sample are exchanged. epsilon asks for the noise, sample for the clean sample."""
    other = {"epsilon": "sample", "sample": "epsilon"}.get(name, name)
    return target(x, noise, t, table, other)


@misconception("1.8", "noisy-sample-as-target", replaces="training_target", reads=TARGETS)
def question_as_answer(x: Tensor, noise: Tensor, t: Tensor, table: Tensor, name: str) -> Tensor:
    """The target of sample is the noisy x_t here. That is the network's input; its answer is the
    clean sample."""
    a = beside(table[t], x)
    mixed = (a.sqrt() * x + (1 - a).sqrt() * noise).to(x.dtype)
    return mixed if name == "sample" else target(x, noise, t, table, name)


@misconception("1.8", "velocity-of-a-straight-line", replaces="training_target", reads=FLOW)
def flow_target(x: Tensor, noise: Tensor, t: Tensor, table: Tensor, name: str) -> Tensor:
    """ε − x0 is the target of flow matching. v_prediction means √ᾱ·ε − √(1 − ᾱ)·x0."""
    return noise - x if name == "v_prediction" else target(x, noise, t, table, name)


@misconception("1.8", "v-target-without-the-factor-of-noise", replaces="training_target", reads=V)
def noise_unscaled(x: Tensor, noise: Tensor, t: Tensor, table: Tensor, name: str) -> Tensor:
    """The noise stands in v without its factor √ᾱ."""
    if name != "v_prediction":
        return target(x, noise, t, table, name)
    return (noise - (1 - beside(table[t], x)).sqrt() * x).to(x.dtype)


@misconception("1.8", "v-target-roles-exchanged", replaces="training_target", reads=V)
def v_target_roles(x: Tensor, noise: Tensor, t: Tensor, table: Tensor, name: str) -> Tensor:
    """Data and noise have each other's place in v. It is √ᾱ times the noise minus √(1 − ᾱ) times
    the data."""
    if name != "v_prediction":
        return target(x, noise, t, table, name)
    return target(noise, x, t, table, name)


@misconception("1.8", "v-target-negated", replaces="training_target", reads=V)
def v_target_negated(x: Tensor, noise: Tensor, t: Tensor, table: Tensor, name: str) -> Tensor:
    """v has the wrong sign: plus √ᾱ·ε, minus √(1 − ᾱ)·x0."""
    right = target(x, noise, t, table, name)
    return -right if name == "v_prediction" else right


@misconception("1.8", "unknown-prediction-accepted", replaces="training_target", reads=TARGETS)
def any_prediction(x: Tensor, noise: Tensor, t: Tensor, table: Tensor, name: str) -> Tensor:
    """An unknown prediction_type was answered with the noise. A misspelt type must not train a
    model: raise a ValueError."""
    known = ("sample", "v_prediction")
    return target(x, noise, t, table, name if name in known else "epsilon")
