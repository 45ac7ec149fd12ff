"""Lab 09: wrong answers that people really give, each the shortest code beside its sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from infralens.examiner import misconception

PAGE = "handbook/controlnet.md"
IMAGE = f"{PAGE}#the-control-image"
ZERO = f"{PAGE}#zero-convolutions"
SCALE = f"{PAGE}#conditioning-scale"
WHERE = f"{PAGE}#where-the-residuals-go"
WINDOW = f"{PAGE}#start-and-end"
GUESS = f"{PAGE}#guess-mode"
SEVERAL = f"{PAGE}#several-controls"
TURN = f"{PAGE}#one-turn-of-the-loop"

Pairs = Sequence[tuple[Tensor, Tensor]]
Sets = Sequence[tuple[Sequence[Tensor], Tensor]]


# Compact twins of the right answers, for the wrong ones below to differ from in one place.


def stacked(image: Any) -> Tensor:
    """(N, H, W, 3)."""
    pixels = torch.as_tensor(image)
    return pixels if pixels.dim() == 4 else pixels.unsqueeze(0)


def first(pixels: Tensor) -> Tensor:
    """Channels first, still from 0 to 255."""
    return pixels.permute(0, 3, 1, 2).to(torch.float32)


def rows_of(x: Tensor, batch: int, guidance: bool) -> Tensor:
    share, rest = divmod(batch, x.shape[0])
    if rest:
        raise ValueError("not a multiple")
    return x.repeat_interleave(share, 0).repeat(2 if guidance else 1, 1, 1, 1)


def through(features: Sequence[Tensor], pairs: Pairs) -> list[Tensor]:
    return [F.conv2d(x, *pair) for x, pair in zip(features, pairs, strict=True)]


def parted(residuals: Sequence[Tensor]) -> tuple[list[Tensor], Tensor]:
    return list(residuals[:-1]), residuals[-1]


def checked(skips: Sequence[Tensor], down: Any, mid: Any) -> bool:
    """Whether there is control at all."""
    if (down is None) != (mid is None) or (down is not None and len(down) != len(skips)):
        raise ValueError("residuals do not fit")
    return mid is not None


def added(skips: Sequence[Tensor], down: Sequence[Tensor]) -> list[Tensor]:
    return [torch.add(a, b) for a, b in zip(skips, down, strict=False)]


def sums(sets: Sequence[Sequence[Tensor]]) -> tuple[list[Tensor], Tensor]:
    return parted([sum(column[1:], column[0]) for column in zip(*sets, strict=True)])


def scaled_sets(sets: Sets, scales: Sequence[float]) -> list[list[Tensor]]:
    if len(sets) != len(scales):
        raise ValueError("a scale for each")
    return [[r * s for r in (*d, m)] for (d, m), s in zip(sets, scales, strict=True)]


def ask(controlnet: Any, x: Tensor, t: Any, e: Tensor, image: Tensor, scale: Any, g: bool) -> Any:
    return controlnet(x, t, e, image, scale, guess_mode=g)


def tell(unet: Any, x: Tensor, t: Any, e: Tensor, down: Any, mid: Any) -> Any:
    return unet(x, t, e, down_block_additional_residuals=down, mid_block_additional_residual=mid)


def second(x: Tensor) -> Tensor:
    return x[len(x) // 2 :]


def padded(residuals: Sequence[Tensor]) -> list[Tensor]:
    return [torch.cat((torch.zeros_like(r), r)) for r in residuals]


# 9.1


@misconception("9.1", "control-image-from-minus-one", replaces="control_image", reads=IMAGE)
def from_minus_one(image: Any, batch: int, guidance: bool) -> Tensor:
    """The pixels were brought to [−1, 1]. That is what a VAE takes; a ControlNet was trained on
    images in [0, 1], where black is 0."""
    return rows_of(first(stacked(image)) / 127.5 - 1, batch, guidance)


@misconception("9.1", "red-and-blue-exchanged", replaces="control_image", reads=IMAGE)
def red_and_blue(image: Any, batch: int, guidance: bool) -> Tensor:
    """Red and blue changed places. OpenCV's files come as BGR; here the pixels are RGB already, and
    a ControlNet trained on BGR says so in its config (controlnet_conditioning_channel_order)."""
    return rows_of(first(stacked(image)).flip(1) / 255, batch, guidance)


@misconception("9.1", "control-image-to-255", replaces="control_image", reads=IMAGE)
def to_255(image: Any, batch: int, guidance: bool) -> Tensor:
    """The pixels stayed between 0 and 255. Divide by 255. The library does that for PIL images
    only, not for arrays and tensors, and says nothing."""
    return rows_of(first(stacked(image)), batch, guidance)


@misconception("9.1", "divided-by-256", replaces="control_image", reads=IMAGE)
def by_256(image: Any, batch: int, guidance: bool) -> Tensor:
    """The pixels were divided by 256. White is 255 and has to become 1."""
    return rows_of(first(stacked(image)) / 256, batch, guidance)


@misconception("9.1", "divided-by-the-brightest", replaces="control_image", reads=IMAGE)
def by_the_brightest(image: Any, batch: int, guidance: bool) -> Tensor:
    """The pixels were divided by the brightest of them. A gray picture would come out white; the
    divisor is 255 for every picture."""
    x = first(stacked(image))
    return rows_of(x / x.max(), batch, guidance)


@misconception("9.1", "pixels-read-as-channels", replaces="control_image", reads=IMAGE)
def reshaped(image: Any, batch: int, guidance: bool) -> Tensor:
    """The axes were relabelled with a reshape. The shape is right, but the numbers of three
    neighbouring pixels became the three channels: permute the axes instead."""
    x = stacked(image)
    n, h, w, c = x.shape
    return rows_of(x.reshape(n, c, h, w) / 255, batch, guidance)


@misconception("9.1", "control-image-on-its-side", replaces="control_image", reads=IMAGE)
def on_its_side(image: Any, batch: int, guidance: bool) -> Tensor:
    """Height and width changed places. (H, W, 3) becomes (3, H, W): the last axis goes to the
    front, the others keep their order."""
    return rows_of(first(stacked(image)).mT / 255, batch, guidance)


@misconception("9.1", "pictures-in-turns", replaces="control_image", reads=IMAGE)
def in_turns(image: Any, batch: int, guidance: bool) -> Tensor:
    """The pictures were repeated as [a, b, a, b]. The latents of one prompt lie side by side, so
    their pictures do too: [a, a, b, b]."""
    x = first(stacked(image)) / 255
    again = len(rows_of(x, batch, False)) // len(x)
    return rows_of(x.repeat(again, 1, 1, 1), batch, guidance)


@misconception("9.1", "halves-interleaved", replaces="control_image", reads=IMAGE)
def halves_interleaved(image: Any, batch: int, guidance: bool) -> Tensor:
    """For guidance every row was doubled in place. The batch has two halves: all pictures for the
    unconditional one, then all of them again."""
    return rows_of(first(stacked(image)) / 255, 2 * batch if guidance else batch, False)


@misconception("9.1", "guidance-not-doubled", replaces="control_image", reads=IMAGE)
def not_doubled(image: Any, batch: int, guidance: bool) -> Tensor:
    """Under guidance the ControlNet sees both halves of the batch, so the pictures are needed
    twice."""
    return rows_of(first(stacked(image)) / 255, batch, False)


@misconception("9.1", "always-doubled", replaces="control_image", reads=IMAGE)
def always_doubled(image: Any, batch: int, guidance: bool) -> Tensor:
    """The pictures came twice without guidance. The second half exists only under guidance."""
    return rows_of(first(stacked(image)) / 255, batch, True)


@misconception("9.1", "no-image-for-the-unconditional-half", replaces="control_image", reads=IMAGE)
def none_for_unconditional(image: Any, batch: int, guidance: bool) -> Tensor:
    """The unconditional half got black pictures. Unconditional means without the prompt; both
    halves are controlled by the same picture (guess mode is another matter, see 9.5)."""
    x = rows_of(first(stacked(image)) / 255, batch, False)
    return padded([x])[0] if guidance else x


@misconception("9.1", "pictures-not-repeated", replaces="control_image", reads=IMAGE)
def not_repeated(image: Any, batch: int, guidance: bool) -> Tensor:
    """Each picture came once. Every latent needs a row of its own."""
    x = first(stacked(image)) / 255
    rows_of(x, batch, False)  # for its ValueError
    return rows_of(x, len(x), guidance)


@misconception("9.1", "batch-times-pictures", replaces="control_image", reads=IMAGE)
def times_batch(image: Any, batch: int, guidance: bool) -> Tensor:
    """Each picture was repeated batch times. batch counts the latents of all pictures together, so
    each of N pictures is repeated batch / N times."""
    x = first(stacked(image)) / 255
    rows_of(x, batch, False)  # for its ValueError
    return rows_of(x, batch * len(x), guidance)


@misconception("9.1", "unshared-batch-accepted", replaces="control_image", reads=IMAGE)
def rounded_down(image: Any, batch: int, guidance: bool) -> Tensor:
    """A number of latents that is no multiple of the number of pictures was accepted. Some latents
    would have no picture: ValueError."""
    x = first(stacked(image)) / 255
    return rows_of(x, batch // len(x) * len(x), guidance)


# 9.2


@misconception("9.2", "zero-convolutions-unused", replaces="zero_conv_residuals", reads=ZERO)
def unused(features: Sequence[Tensor], pairs: Pairs, scale: float) -> Any:
    """The features were added without their zero convolutions. A ControlNet that has not learned
    anything would then disturb the UNet from the first step on."""
    return parted([scale * x for x in features])


@misconception("9.2", "zero-convolution-without-bias", replaces="zero_conv_residuals", reads=ZERO)
def without_bias(features: Sequence[Tensor], pairs: Pairs, scale: float) -> Any:
    """The bias was left out. A zero convolution has both, and both begin at zero."""
    return parted([scale * F.conv2d(x, w) for x, (w, _) in zip(features, pairs, strict=True)])


@misconception("9.2", "bias-not-scaled", replaces="zero_conv_residuals", reads=SCALE)
def bias_not_scaled(features: Sequence[Tensor], pairs: Pairs, scale: float) -> Any:
    """The features were scaled before the convolution, so the bias stayed whole. The scale belongs
    to the residual, behind the convolution: at scale 0 nothing may be left."""
    return parted(through([scale * x for x in features], pairs))


@misconception("9.2", "weight-read-backwards", replaces="zero_conv_residuals", reads=ZERO)
def backwards(features: Sequence[Tensor], pairs: Pairs, scale: float) -> Any:
    """The weight was read as (in, out). A convolution's weight is (out, in, height, width); since
    it is square here, no shape complains."""
    turned = [(w.transpose(0, 1), b) for w, b in pairs]
    return parted([scale * x for x in through(features, turned)])


@misconception("9.2", "scale-on-down-residuals-only", replaces="zero_conv_residuals", reads=SCALE)
def down_only(features: Sequence[Tensor], pairs: Pairs, scale: float) -> Any:
    """The mid residual was not scaled. The scale applies to all residuals alike."""
    down, mid = parted(through(features, pairs))
    return [scale * x for x in down], mid


@misconception("9.2", "scale-applied-twice", replaces="zero_conv_residuals", reads=SCALE)
def twice(features: Sequence[Tensor], pairs: Pairs, scale: float) -> Any:
    """The scale was applied twice. Residuals are linear in it."""
    return parted([scale**2 * x for x in through(features, pairs)])


@misconception("9.2", "scale-forgotten", replaces="zero_conv_residuals", reads=SCALE)
def scale_forgotten(features: Sequence[Tensor], pairs: Pairs, scale: float) -> Any:
    """The residuals were not scaled. The conditioning scale is the only knob there is for how much
    the image has to say."""
    return parted(through(features, pairs))


@misconception("9.2", "mid-residual-taken-first", replaces="zero_conv_residuals", reads=ZERO)
def mid_first(features: Sequence[Tensor], pairs: Pairs, scale: float) -> Any:
    """The first residual was taken for the middle block's. The order is that of the way down:
    conv_in's first, the middle block's last."""
    all_of_them = [scale * x for x in through(features, pairs)]
    return all_of_them[1:], all_of_them[0]


@misconception(
    "9.2", "mid-residual-among-the-down-ones", replaces="zero_conv_residuals", reads=ZERO
)
def mid_among_down(features: Sequence[Tensor], pairs: Pairs, scale: float) -> Any:
    """The mid residual is among the down residuals as well. There is one down residual for each
    skip; the middle block's goes elsewhere."""
    all_of_them = [scale * x for x in through(features, pairs)]
    return all_of_them, all_of_them[-1]


@misconception("9.2", "down-residuals-reversed", replaces="zero_conv_residuals", reads=ZERO)
def down_reversed(features: Sequence[Tensor], pairs: Pairs, scale: float) -> Any:
    """The down residuals came in the order of the way up. They are listed as the way down makes
    them; the UNet itself takes them from the end."""
    down, mid = parted([scale * x for x in through(features, pairs)])
    return down[::-1], mid


@misconception("9.2", "feature-kept-beside", replaces="zero_conv_residuals", reads=ZERO)
def kept_beside(features: Sequence[Tensor], pairs: Pairs, scale: float) -> Any:
    """The feature itself was added to what the convolution made of it. Only the convolution's
    result leaves the ControlNet; the sum with the UNet's own feature comes in 9.3."""
    return parted([x + scale * y for x, y in zip(features, through(features, pairs), strict=True)])


@misconception(
    "9.2", "activation-behind-zero-convolution", replaces="zero_conv_residuals", reads=ZERO
)
def activated(features: Sequence[Tensor], pairs: Pairs, scale: float) -> Any:
    """A SiLU was applied behind the convolution. A zero convolution is linear, and its results may
    be negative as they are."""
    return parted([scale * F.silu(x) for x in through(features, pairs)])


# 9.3


@misconception("9.3", "mid-residual-before-the-block", replaces="add_residuals", reads=WHERE)
def before_the_block(skips: Any, hidden: Tensor, mid_block: Any, down: Any, mid: Any) -> Any:
    """The mid residual was added before the middle block. It is added to the block's result: the
    ControlNet's own middle block has been at work on it."""
    if not checked(skips, down, mid):
        return skips, mid_block(hidden)
    return added(skips, down), mid_block(hidden + mid)


@misconception("9.3", "middle-block-left-out", replaces="add_residuals", reads=WHERE)
def block_left_out(skips: Any, hidden: Tensor, mid_block: Any, down: Any, mid: Any) -> Any:
    """The middle block was not called when there are residuals. They add to what it says; they do
    not replace it."""
    if not checked(skips, down, mid):
        return skips, mid_block(hidden)
    return added(skips, down), hidden + mid


@misconception("9.3", "middle-block-asked-again", replaces="add_residuals", reads=WHERE)
def asked_again(skips: Any, hidden: Tensor, mid_block: Any, down: Any, mid: Any) -> Any:
    """The middle block was called more than once. It is a network: one call, whose result is kept
    in a variable."""
    if not checked(skips, down, mid):
        return skips, mid_block(hidden)
    return added(skips, down), mid_block(hidden) + mid + 0 * mid_block(hidden)


@misconception("9.3", "control-inside-the-encoder", replaces="add_residuals", reads=WHERE)
def inside(skips: Any, hidden: Tensor, mid_block: Any, down: Any, mid: Any) -> Any:
    """The last down residual was added to what the middle block is given, too. The UNet's encoder
    and middle block run as if there were no control; the residuals go to the way up only."""
    if not checked(skips, down, mid):
        return skips, mid_block(hidden)
    return added(skips, down), mid_block(hidden + down[-1]) + mid


@misconception("9.3", "residuals-in-the-opposite-order", replaces="add_residuals", reads=WHERE)
def opposite(skips: Any, hidden: Tensor, mid_block: Any, down: Any, mid: Any) -> Any:
    """The residuals were met with the skips in the opposite order. Both lists are in the order of
    the way down, conv_in first."""
    if not checked(skips, down, mid):
        return skips, mid_block(hidden)
    return added(skips, down[::-1]), mid_block(hidden) + mid


@misconception("9.3", "skips-replaced", replaces="add_residuals", reads=WHERE)
def replaced(skips: Any, hidden: Tensor, mid_block: Any, down: Any, mid: Any) -> Any:
    """The residuals took the place of the skips. They are added to them."""
    if not checked(skips, down, mid):
        return skips, mid_block(hidden)
    return down, mid_block(hidden) + mid


@misconception("9.3", "residuals-concatenated", replaces="add_residuals", reads=WHERE)
def concatenated(skips: Any, hidden: Tensor, mid_block: Any, down: Any, mid: Any) -> Any:
    """The residuals were concatenated to the skips along the channels. That is how skips meet the
    way up; a residual is added and keeps the skip's shape."""
    if not checked(skips, down, mid):
        return skips, mid_block(hidden)
    both = [torch.cat(pair, dim=1) for pair in zip(skips, down, strict=True)]
    return both, mid_block(hidden) + mid


@misconception("9.3", "mid-residual-forgotten", replaces="add_residuals", reads=WHERE)
def mid_forgotten(skips: Any, hidden: Tensor, mid_block: Any, down: Any, mid: Any) -> Any:
    """The mid residual was not used. The deepest features say the most about what is where."""
    if not checked(skips, down, mid):
        return skips, mid_block(hidden)
    return added(skips, down), mid_block(hidden)


@misconception("9.3", "down-residuals-forgotten", replaces="add_residuals", reads=WHERE)
def down_forgotten(skips: Any, hidden: Tensor, mid_block: Any, down: Any, mid: Any) -> Any:
    """The down residuals were not used: only the middle was controlled."""
    if not checked(skips, down, mid):
        return skips, mid_block(hidden)
    return skips, mid_block(hidden) + mid


@misconception("9.3", "skips-changed-in-place", replaces="add_residuals", reads=WHERE)
def in_place(skips: Any, hidden: Tensor, mid_block: Any, down: Any, mid: Any) -> Any:
    """The residuals were added to the skips in place. Whoever handed the skips over still holds
    them, and would find the control in them a second time."""
    if not checked(skips, down, mid):
        return skips, mid_block(hidden)
    return [s.add_(r) for s, r in zip(skips, down, strict=True)], mid_block(hidden) + mid


@misconception("9.3", "residuals-popped", replaces="add_residuals", reads=WHERE)
def popped(skips: Any, hidden: Tensor, mid_block: Any, down: Any, mid: Any) -> Any:
    """The residuals were taken out of the caller's list, which is empty afterwards. Leave the
    arguments as they are."""
    if not checked(skips, down, mid):
        return skips, mid_block(hidden)
    return [s + down.pop(0) for s in skips], mid_block(hidden) + mid


@misconception("9.3", "missing-residuals-passed-over", replaces="add_residuals", reads=WHERE)
def passed_over(skips: Any, hidden: Tensor, mid_block: Any, down: Any, mid: Any) -> Any:
    """Fewer or more residuals than skips were accepted. zip stops at the shorter list: the last
    skips would be lost, or the last residuals unheard."""
    if not checked(skips, None if down is None else skips, mid):
        return skips, mid_block(hidden)
    return added(skips, down), mid_block(hidden) + mid


@misconception("9.3", "mid-residual-alone-ignored", replaces="add_residuals", reads=WHERE)
def alone_ignored(skips: Any, hidden: Tensor, mid_block: Any, down: Any, mid: Any) -> Any:
    """A mid residual without down residuals was ignored. Whoever passes one means it: say that the
    other is missing."""
    if down is None:
        return skips, mid_block(hidden)
    checked(skips, down, mid)
    return added(skips, down), mid_block(hidden) + mid


@misconception("9.3", "down-residuals-without-mid", replaces="add_residuals", reads=WHERE)
def without_mid(skips: Any, hidden: Tensor, mid_block: Any, down: Any, mid: Any) -> Any:
    """Down residuals without a mid residual were accepted. UNet2DConditionModel would take them for
    a T2I-Adapter's and add them elsewhere; here that is a ValueError."""
    if not checked(skips, down, skips if mid is None and down is not None else mid):
        return skips, mid_block(hidden)
    middle = mid_block(hidden)
    return added(skips, down), middle if mid is None else middle + mid


@misconception("9.3", "control-required", replaces="add_residuals", reads=WHERE)
def required(skips: Any, hidden: Tensor, mid_block: Any, down: Any, mid: Any) -> Any:
    """Without any residuals an error was raised. Both None is a UNet without control."""
    if down is None or mid is None or len(down) != len(skips):
        raise ValueError("residuals do not fit")
    return added(skips, down), mid_block(hidden) + mid


# 9.4


@misconception("9.4", "window-widened-by-a-margin", replaces="controlnet_keep", reads=WINDOW)
def widened(n: int, start: float, end: float) -> list[float]:
    """The window was widened by a margin, so that a turn it cuts off by a little counts. Compare
    the shares as they are."""
    return [float(i / n >= start - 1e-4 and (i + 1) / n <= end + 1e-4) for i in range(n)]


@misconception("9.4", "window-in-whole-turns", replaces="controlnet_keep", reads=WINDOW)
def whole_turns(n: int, start: float, end: float) -> list[float]:
    """Start and end were cut to whole turns, int(start·n) ≤ i < int(end·n). That is the rule of the
    guiders; here a turn in which the window opens does not count yet."""
    return [float(int(start * n) <= i < int(end * n)) for i in range(n)]


@misconception("9.4", "window-rounded", replaces="controlnet_keep", reads=WINDOW)
def rounded(n: int, start: float, end: float) -> list[float]:
    """Start and end were rounded to turns. A turn counts only when it lies whole in the window."""
    return [float(round(start * n) <= i < round(end * n)) for i in range(n)]


@misconception("9.4", "turns-judged-by-their-beginning", replaces="controlnet_keep", reads=WINDOW)
def by_beginning(n: int, start: float, end: float) -> list[float]:
    """Only the beginning of a turn was compared with end. A turn that ends after `end` is out:
    (i + 1) / n > end."""
    return [float(start <= i / n <= end) for i in range(n)]


@misconception("9.4", "turns-judged-by-their-end", replaces="controlnet_keep", reads=WINDOW)
def by_end(n: int, start: float, end: float) -> list[float]:
    """Only the end of a turn was compared with start. A turn that begins before `start` is out:
    i / n < start."""
    return [float(start <= (i + 1) / n <= end) for i in range(n)]


@misconception("9.4", "first-edge-left-out", replaces="controlnet_keep", reads=WINDOW)
def first_edge_out(n: int, start: float, end: float) -> list[float]:
    """A turn that begins exactly at start was left out, the first one at start 0 too. Only
    i / n < start is out."""
    return [float(i / n > start and (i + 1) / n <= end) for i in range(n)]


@misconception("9.4", "last-edge-left-out", replaces="controlnet_keep", reads=WINDOW)
def last_edge_out(n: int, start: float, end: float) -> list[float]:
    """A turn that ends exactly at end was left out, the last one at end 1 too. Only
    (i + 1) / n > end is out."""
    return [float(i / n >= start and (i + 1) / n < end) for i in range(n)]


@misconception("9.4", "edges-left-out", replaces="controlnet_keep", reads=WINDOW)
def edges_out(n: int, start: float, end: float) -> list[float]:
    """A turn that begins exactly at start, or ends exactly at end, was left out. It lies in the
    window: only < and > put a turn out."""
    return [float(i / n > start and (i + 1) / n < end) for i in range(n)]


@misconception("9.4", "window-turned-inside-out", replaces="controlnet_keep", reads=WINDOW)
def inside_out(n: int, start: float, end: float) -> list[float]:
    """Zeros and ones changed places: 1.0 is for the turns in which the ControlNet counts."""
    return [float(i / n < start or (i + 1) / n > end) for i in range(n)]


@misconception("9.4", "end-forgotten", replaces="controlnet_keep", reads=WINDOW)
def end_forgotten(n: int, start: float, end: float) -> list[float]:
    """The control did not stop at `end`."""
    return [float(i / n >= start) for i in range(n)]


@misconception("9.4", "start-forgotten", replaces="controlnet_keep", reads=WINDOW)
def start_forgotten(n: int, start: float, end: float) -> list[float]:
    """The control did not wait for `start`."""
    return [float((i + 1) / n <= end) for i in range(n)]


@misconception("9.4", "out-only-on-both-sides", replaces="controlnet_keep", reads=WINDOW)
def both_sides(n: int, start: float, end: float) -> list[float]:
    """A turn was left out only when it is before start and after end. One of the two is enough."""
    return [1.0 - float(i / n < start and (i + 1) / n > end) for i in range(n)]


@misconception("9.4", "window-counted-from-the-end", replaces="controlnet_keep", reads=WINDOW)
def from_the_end(n: int, start: float, end: float) -> list[float]:
    """The turns were counted from the end. Timesteps fall, but the shares run with the loop: 0 is
    where the noise is."""
    return [float(i / n >= start and (i + 1) / n <= end) for i in range(n)][::-1]


@misconception("9.4", "kept-turns-only", replaces="controlnet_keep", reads=WINDOW)
def kept_only(n: int, start: float, end: float) -> list[float]:
    """The turns without control are missing from the list. It has a number for every turn."""
    return [1.0 for i in range(n) if i / n >= start and (i + 1) / n <= end]


# 9.5


@misconception("9.5", "scales-by-powers-of-0.825", replaces="guess_mode_scales", reads=GUESS)
def powers(n: int) -> Tensor:
    """The scales are powers of 0.825, as in the first ControlNet code, which had twelve down
    residuals. diffusers spreads 0.1 to 1 over whatever number there is."""
    return 0.825 ** torch.arange(n, -1, -1).float()


@misconception("9.5", "scales-for-down-residuals-only", replaces="guess_mode_scales", reads=GUESS)
def n_scales(n: int) -> Tensor:
    """There are n scales. The mid residual has one too, the last: n + 1."""
    return torch.logspace(-1, 0, n)


@misconception("9.5", "scales-spread-over-n", replaces="guess_mode_scales", reads=GUESS)
def spread_over_n(n: int) -> Tensor:
    """The n down residuals already reach 1, and the mid residual has 1 again. The row of n + 1
    scales rises through all of them, and only the mid residual's is 1."""
    return torch.cat((torch.logspace(-1, 0, n), torch.ones(1)))


@misconception("9.5", "scales-in-equal-steps", replaces="guess_mode_scales", reads=GUESS)
def equal_steps(n: int) -> Tensor:
    """The scales rise in equal differences. They rise in equal ratios: logspace, not linspace."""
    return torch.linspace(0.1, 1, n + 1)


@misconception("9.5", "scales-fall", replaces="guess_mode_scales", reads=GUESS)
def falling(n: int) -> Tensor:
    """The scales fall. The shallowest residual, conv_in's, gets 0.1 and the middle block's 1: the
    deep ones know what is in the image, the shallow ones where each line runs."""
    return torch.logspace(0, -1, n + 1)


@misconception("9.5", "scales-with-base-e", replaces="guess_mode_scales", reads=GUESS)
def base_e(n: int) -> Tensor:
    """The scales begin at 1/e. They begin at 1/10: torch.logspace has base 10, exp has not."""
    return torch.linspace(-1, 0, n + 1).exp()


@misconception("9.5", "zeros-in-the-second-half", replaces="guess_mode_residuals", reads=GUESS)
def zeros_second(residuals: Sequence[Tensor]) -> list[Tensor]:
    """The zeros came second. The unconditional half is the first one, and it is the one without
    control."""
    return [torch.cat((r, torch.zeros_like(r))) for r in residuals]


@misconception("9.5", "residuals-for-both-halves", replaces="guess_mode_residuals", reads=GUESS)
def for_both(residuals: Sequence[Tensor]) -> list[Tensor]:
    """Both halves got the residual. In guess mode only the conditional half is controlled, so that
    guidance exaggerates the control."""
    return [torch.cat((r, r)) for r in residuals]


@misconception("9.5", "mid-residual-not-padded", replaces="guess_mode_residuals", reads=GUESS)
def all_but_the_last(residuals: Sequence[Tensor]) -> list[Tensor]:
    """The last residual was not padded. All of them are, whichever block they are for."""
    return [*padded(residuals[:-1]), residuals[-1]]


@misconception("9.5", "residuals-not-padded", replaces="guess_mode_residuals", reads=GUESS)
def not_padded(residuals: Sequence[Tensor]) -> list[Tensor]:
    """The residuals kept their B rows. The UNet's batch has 2·B: with B = 1 they would be added to
    both halves in silence, else the shapes clash."""
    return list(residuals)


@misconception("9.5", "zeros-interleaved", replaces="guess_mode_residuals", reads=GUESS)
def zeros_interleaved(residuals: Sequence[Tensor]) -> list[Tensor]:
    """Zeros and residuals alternate. The batch has two halves: all zeros, then all residuals."""
    return [torch.stack((torch.zeros_like(r), r), 1).flatten(0, 1) for r in residuals]


# 9.6


@misconception("9.6", "mid-residuals-not-scaled", replaces="multi_control", reads=SEVERAL)
def mid_unscaled(sets: Sets, scales: Sequence[float]) -> Any:
    """The mid residuals were added without their scales. A scale applies to down and mid alike."""
    down, _ = sums(scaled_sets(sets, scales))
    return down, sum((mid for _, mid in sets[1:]), sets[0][1])


@misconception("9.6", "mid-residual-of-the-last", replaces="multi_control", reads=SEVERAL)
def last_mid(sets: Sets, scales: Sequence[float]) -> Any:
    """The mid residual is the last ControlNet's alone. It is a sum, as the down residuals are."""
    scaled = scaled_sets(sets, scales)
    return sums(scaled)[0], scaled[-1][-1]


@misconception("9.6", "controls-averaged", replaces="multi_control", reads=SEVERAL)
def averaged(sets: Sets, scales: Sequence[float]) -> Any:
    """The residuals were averaged. They add up: a second ControlNet takes nothing from the
    first."""
    return sums([[r / len(sets) for r in one] for one in scaled_sets(sets, scales)])


@misconception("9.6", "one-scale-for-all", replaces="multi_control", reads=SEVERAL)
def one_scale(sets: Sets, scales: Sequence[float]) -> Any:
    """The first scale was used for all ControlNets. Each has its own."""
    scaled_sets(sets, scales)
    return sums(scaled_sets(sets, [scales[0]] * len(sets)))


@misconception("9.6", "sum-scaled-by-the-mean", replaces="multi_control", reads=SEVERAL)
def mean_scale(sets: Sets, scales: Sequence[float]) -> Any:
    """The residuals were added first and the sum was scaled by the mean of the scales. Each set is
    scaled by its own number, then they are added."""
    scaled_sets(sets, scales)
    return sums(scaled_sets(sets, [sum(scales) / len(scales)] * len(sets)))


@misconception("9.6", "scales-made-to-sum-to-one", replaces="multi_control", reads=SEVERAL)
def sum_to_one(sets: Sets, scales: Sequence[float]) -> Any:
    """The scales were divided by their sum. They are no weights of a mean: 1 and 1 is both
    ControlNets in full."""
    return sums(scaled_sets(sets, [scale / sum(scales) for scale in scales]))


@misconception("9.6", "controls-not-scaled", replaces="multi_control", reads=SEVERAL)
def unscaled(sets: Sets, scales: Sequence[float]) -> Any:
    """The residuals were added without their scales."""
    scaled_sets(sets, scales)
    return sums(scaled_sets(sets, [1.0] * len(sets)))


@misconception("9.6", "last-control-wins", replaces="multi_control", reads=SEVERAL)
def last_wins(sets: Sets, scales: Sequence[float]) -> Any:
    """Only the last ControlNet is left: each one overwrote the one before."""
    return parted(scaled_sets(sets, scales)[-1])


@misconception("9.6", "controls-in-one-row", replaces="multi_control", reads=SEVERAL)
def in_one_row(sets: Sets, scales: Sequence[float]) -> Any:
    """The lists of down residuals were joined end to end. There is one residual for each skip, the
    sum over the ControlNets."""
    scaled = scaled_sets(sets, scales)
    return [r for one in scaled for r in one[:-1]], sums(scaled)[1]


@misconception("9.6", "controls-multiplied", replaces="multi_control", reads=SEVERAL)
def multiplied(sets: Sets, scales: Sequence[float]) -> Any:
    """The scales were multiplied with each other. Each belongs to one ControlNet."""
    scaled_sets(sets, scales)
    return sums(scaled_sets(sets, [math.prod(scales)] * len(sets)))


@misconception("9.6", "scales-in-the-opposite-order", replaces="multi_control", reads=SEVERAL)
def opposite_scales(sets: Sets, scales: Sequence[float]) -> Any:
    """The scales went to the ControlNets in the opposite order."""
    return sums(scaled_sets(sets, scales[::-1]))


@misconception("9.6", "wrong-number-of-scales-accepted", replaces="multi_control", reads=SEVERAL)
def any_number(sets: Sets, scales: Sequence[float]) -> Any:
    """Another number of scales than ControlNets was accepted. zip stops at the shorter list, and a
    ControlNet is lost without a word."""
    count = min(len(sets), len(scales))
    return sums(scaled_sets(sets[:count], scales[:count]))


# 9.7


@misconception(
    "9.7", "guess-mode-controls-both-halves", replaces="controlled_prediction", reads=TURN
)
def doubled(
    unet: Any, controlnet: Any, x: Tensor, t: Any, e: Tensor, image: Tensor, scale: float, g: bool
) -> Any:
    """In guess mode the residuals were given to both halves. The unconditional half gets zeros."""
    if not g:
        return tell(unet, x, t, e, *ask(controlnet, x, t, e, image, scale, g))
    down, mid = ask(controlnet, second(x), t, second(e), image, scale, g)
    return tell(unet, x, t, e, [torch.cat((r, r)) for r in down], torch.cat((mid, mid)))


@misconception("9.7", "guess-mode-asks-both-halves", replaces="controlled_prediction", reads=TURN)
def both_halves(
    unet: Any, controlnet: Any, x: Tensor, t: Any, e: Tensor, image: Tensor, scale: float, g: bool
) -> Any:
    """In guess mode the ControlNet was asked about both halves. It sees the conditional half, which
    is the second."""
    if g:
        image = torch.cat((image, image))
    return tell(unet, x, t, e, *ask(controlnet, x, t, e, image, scale, g))


@misconception(
    "9.7", "guess-mode-asks-the-first-half", replaces="controlled_prediction", reads=TURN
)
def first_half(
    unet: Any, controlnet: Any, x: Tensor, t: Any, e: Tensor, image: Tensor, scale: float, g: bool
) -> Any:
    """In guess mode the ControlNet was given the embeddings of the negative prompt. The conditional
    half is the second: chunk(2)[1]."""
    if not g:
        return tell(unet, x, t, e, *ask(controlnet, x, t, e, image, scale, g))
    half = len(e) // 2
    down, mid = ask(controlnet, x[:half], t, e[:half], image, scale, g)
    return tell(unet, x, t, e, padded(down), padded([mid])[0])


@misconception("9.7", "guess-mode-not-padded", replaces="controlled_prediction", reads=TURN)
def without_zeros(
    unet: Any, controlnet: Any, x: Tensor, t: Any, e: Tensor, image: Tensor, scale: float, g: bool
) -> Any:
    """In guess mode the residuals of B rows went to the UNet, whose batch is 2·B. Put zeros before
    them for the unconditional half (9.5)."""
    if not g:
        return tell(unet, x, t, e, *ask(controlnet, x, t, e, image, scale, g))
    return tell(unet, x, t, e, *ask(controlnet, second(x), t, second(e), image, scale, g))


@misconception("9.7", "guess-mode-zeros-second", replaces="controlled_prediction", reads=TURN)
def zeros_last(
    unet: Any, controlnet: Any, x: Tensor, t: Any, e: Tensor, image: Tensor, scale: float, g: bool
) -> Any:
    """In guess mode the zeros came second, so the negative prompt was controlled and the prompt was
    not. The unconditional half is the first."""
    if not g:
        return tell(unet, x, t, e, *ask(controlnet, x, t, e, image, scale, g))
    down, mid = ask(controlnet, second(x), t, second(e), image, scale, g)
    return tell(unet, x, t, e, zeros_second(down), zeros_second([mid])[0])


@misconception("9.7", "guess-mode-not-told", replaces="controlled_prediction", reads=TURN)
def not_told(
    unet: Any, controlnet: Any, x: Tensor, t: Any, e: Tensor, image: Tensor, scale: float, g: bool
) -> Any:
    """The ControlNet was not told about guess mode. It is the one that scales its residuals from
    0.1 to 1 then."""
    if not g:
        return tell(unet, x, t, e, *ask(controlnet, x, t, e, image, scale, False))
    down, mid = ask(controlnet, second(x), t, second(e), image, scale, False)
    return tell(unet, x, t, e, padded(down), padded([mid])[0])


@misconception("9.7", "guess-mode-always", replaces="controlled_prediction", reads=TURN)
def always_guessing(
    unet: Any, controlnet: Any, x: Tensor, t: Any, e: Tensor, image: Tensor, scale: float, g: bool
) -> Any:
    """The unconditional half had no control although guess mode is off. Off, both halves are asked
    about and both are controlled."""
    shown = image if g else second(image)
    down, mid = ask(controlnet, second(x), t, second(e), shown, scale, g)
    return tell(unet, x, t, e, padded(down), padded([mid])[0])


@misconception("9.7", "guess-scales-applied-again", replaces="controlled_prediction", reads=TURN)
def scaled_again(
    unet: Any, controlnet: Any, x: Tensor, t: Any, e: Tensor, image: Tensor, scale: float, g: bool
) -> Any:
    """In guess mode the residuals were scaled from 0.1 to 1 a second time. A ControlNet that is
    told guess_mode has done it already."""
    if not g:
        return tell(unet, x, t, e, *ask(controlnet, x, t, e, image, scale, g))
    down, mid = ask(controlnet, second(x), t, second(e), image, scale, g)
    rising = torch.logspace(-1, 0, len(down) + 1).tolist()
    fallen = padded([r * s for r, s in zip((*down, mid), rising, strict=True)])
    return tell(unet, x, t, e, *parted(fallen))


@misconception(
    "9.7", "scale-kept-from-the-controlnet", replaces="controlled_prediction", reads=TURN
)
def scaled_outside(
    unet: Any, controlnet: Any, x: Tensor, t: Any, e: Tensor, image: Tensor, scale: float, g: bool
) -> Any:
    """The ControlNet was asked at scale 1 and its residuals were multiplied outside. Tell it the
    scale, as the pipeline does: conditioning_scale."""
    seen, heard = (second(x), second(e)) if g else (x, e)
    down, mid = ask(controlnet, seen, t, heard, image, 1.0, g)
    scaled = [scale * r for r in (*down, mid)]
    return tell(unet, x, t, e, *parted(padded(scaled) if g else scaled))


@misconception("9.7", "controlnet-scale-twice", replaces="controlled_prediction", reads=TURN)
def scaled_twice(
    unet: Any, controlnet: Any, x: Tensor, t: Any, e: Tensor, image: Tensor, scale: float, g: bool
) -> Any:
    """The residuals were scaled twice, by the ControlNet, which was told the scale, and again
    outside."""
    seen, heard = (second(x), second(e)) if g else (x, e)
    down, mid = ask(controlnet, seen, t, heard, image, scale, g)
    scaled = [scale * r for r in (*down, mid)]
    return tell(unet, x, t, e, *parted(padded(scaled) if g else scaled))


@misconception("9.7", "controlnet-scale-not-passed", replaces="controlled_prediction", reads=TURN)
def scale_not_passed(
    unet: Any, controlnet: Any, x: Tensor, t: Any, e: Tensor, image: Tensor, scale: float, g: bool
) -> Any:
    """The conditioning scale was not used. Pass it to the ControlNet as conditioning_scale."""
    return controlled(unet, controlnet, x, t, e, image, 1.0, g)


def controlled(
    unet: Any, controlnet: Any, x: Tensor, t: Any, e: Tensor, image: Tensor, scale: float, g: bool
) -> Any:
    """A twin of the right answer."""
    seen, heard = (second(x), second(e)) if g else (x, e)
    residuals = ask(controlnet, seen, t, heard, image, scale, g)
    flat = [*residuals[0], residuals[1]]
    return tell(unet, x, t, e, *parted(padded(flat) if g else flat))


@misconception("9.7", "controlnet-asked-half-by-half", replaces="controlled_prediction", reads=TURN)
def half_by_half(
    unet: Any, controlnet: Any, x: Tensor, t: Any, e: Tensor, image: Tensor, scale: float, g: bool
) -> Any:
    """The ControlNet was called once for each half. The pipeline makes one call for both: the
    weights are read once."""
    if g:
        return controlled(unet, controlnet, x, t, e, image, scale, g)
    parts = zip(x.chunk(2), e.chunk(2), image.chunk(2), strict=True)
    answers = [ask(controlnet, a, t, b, c, scale, g) for a, b, c in parts]
    flat = [torch.cat(both) for both in zip(*((*d, m) for d, m in answers), strict=True)]
    return tell(unet, x, t, e, *parted(flat))


@misconception("9.7", "unet-without-mid-residual", replaces="controlled_prediction", reads=TURN)
def no_mid_for_unet(
    unet: Any, controlnet: Any, x: Tensor, t: Any, e: Tensor, image: Tensor, scale: float, g: bool
) -> Any:
    """The UNet got the down residuals alone. It then takes them for a T2I-Adapter's and adds them
    inside its way down: pass mid_block_additional_residual too."""
    return controlled(
        lambda *given, **named: unet(*given, down_block_additional_residuals=down_of(named)),
        controlnet,
        x,
        t,
        e,
        image,
        scale,
        g,
    )


@misconception("9.7", "unet-without-down-residuals", replaces="controlled_prediction", reads=TURN)
def no_down_for_unet(
    unet: Any, controlnet: Any, x: Tensor, t: Any, e: Tensor, image: Tensor, scale: float, g: bool
) -> Any:
    """The UNet got the mid residual alone, and ignores it in silence: it looks for both."""
    return controlled(
        lambda *given, **named: unet(*given, mid_block_additional_residual=mid_of(named)),
        controlnet,
        x,
        t,
        e,
        image,
        scale,
        g,
    )


def down_of(named: dict[str, Any]) -> Any:
    return named["down_block_additional_residuals"]


def mid_of(named: dict[str, Any]) -> Any:
    return named["mid_block_additional_residual"]


@misconception(
    "9.7", "unet-asked-for-the-conditional-half", replaces="controlled_prediction", reads=TURN
)
def half_predicted(
    unet: Any, controlnet: Any, x: Tensor, t: Any, e: Tensor, image: Tensor, scale: float, g: bool
) -> Any:
    """In guess mode the UNet was asked about the conditional half only. Guess mode changes what the
    ControlNet sees; the UNet always predicts for both halves."""
    if not g:
        return controlled(unet, controlnet, x, t, e, image, scale, g)
    down, mid = ask(controlnet, second(x), t, second(e), image, scale, g)
    return tell(unet, second(x), t, second(e), down, mid)


@misconception(
    "9.7", "residuals-added-to-the-prediction", replaces="controlled_prediction", reads=TURN
)
def added_to_prediction(
    unet: Any, controlnet: Any, x: Tensor, t: Any, e: Tensor, image: Tensor, scale: float, g: bool
) -> Any:
    """Something was added to the prediction. The control enters inside the UNet, and what the UNet
    answers is the prediction as it is."""
    out = controlled(unet, controlnet, x, t, e, image, scale, g)
    return out + scale * image.mean()


@misconception("9.7", "halves-combined-too-early", replaces="controlled_prediction", reads=TURN)
def combined(
    unet: Any, controlnet: Any, x: Tensor, t: Any, e: Tensor, image: Tensor, scale: float, g: bool
) -> Any:
    """The two halves of the prediction were combined with the conditioning scale. That scale is not
    the guidance scale; guidance comes later, outside, and this returns both halves."""
    uncond, cond = controlled(unet, controlnet, x, t, e, image, scale, g).chunk(2)
    return uncond + scale * (cond - uncond)
