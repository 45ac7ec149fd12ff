"""Lab 03 of diffsynth: the reading checkpoints, answered by diffusers and by torch's counter."""

from __future__ import annotations

import torch
from diffusers.models.transformers.transformer_wan import WanRotaryPosEmbed

from infralens.quiz import question
from infralens.suites.diffsynth.lab_03_latent_shape_tracking import live


@question("81 frames through Wan's VAE (time by 4): how many latent frames?")
def latent_frames_of_wan() -> int:
    """The first alone, then 80 by 4."""
    return live.encoded(live.video_vae("wan", 4), 81)


@question("81 frames through LTX's VAE (time by 8): how many latent frames?")
def latent_frames_of_ltx() -> int:
    """The first alone, then 80 by 8."""
    return live.encoded(live.video_vae("ltx", 8), 81)


@question("WanPipeline with num_frames=84, and with num_frames=83: how many frames does it make?")
def frames_that_are_made() -> tuple[int, int]:
    """84 // 4 · 4 + 1 and 83 // 4 · 4 + 1: one goes up, the other down."""
    first, second = (4 * (live.made_frames(frames, 4) - 1) + 1 for frames in (84, 83))
    return first, second


@question("Wan's head of 128 features: how many turn by frame, row and column?")
def axes_of_wan() -> tuple[int, int, int]:
    """2 · (128 // 6) for rows and columns, the rest for frames."""
    rope = WanRotaryPosEmbed(128, (1, 2, 2), 8)
    return rope.t_dim, rope.h_dim, rope.w_dim


@question("AutoencoderKLCogVideoX encodes 49 frames: how many frames are in the first two batches?")
def first_batches() -> tuple[int, int]:
    """49 by 8 leaves one frame, and the first batch takes it: 9, then five of 8."""
    (_, first), (begin, end), *_ = live.cogvideox_batches(49, 8)
    return first, end - begin


@question(
    "Wan 14B, 81 frames of 1280 × 720, 512 tokens of text: which share of the operations has N "
    "squared, in whole per cent?"
)
def share_of_the_square() -> int:
    """75,600 tokens: 4·N²·D of 8·N·D² + 4·N²·D, the cross-attention and the MLP."""
    config = live.wan_config(
        num_attention_heads=40, attention_head_dim=128, ffn_dim=13824, rope_max_seq_len=1024
    )
    n, d = 75_600, 5120
    whole = sum(live.counted(config, 1, (21, 45, 80), 512).values())
    return round(100 * 4 * n * n * d / whole)


@question(
    "Two videos of 16 frames as four-channel latents: which shape does an image VAE decode?",
    choices=("(2, 4, 16, h, w)", "(2, 16, 4, h, w)", "(32, 4, h, w)"),
)
def shape_for_an_image_vae() -> str:
    """Frames go into the batch: the image VAE knows no axis for them."""
    (given,), _ = live.through_animatediff(torch.zeros(2, 4, 16, 3, 5), 32)
    frames, channels, *_ = given.shape
    return f"({frames}, {channels}, h, w)"
