"""Lab 06 of diffsynth: the reading checkpoints, answered by diffusers."""

from __future__ import annotations

import torch

from infralens.quiz import question
from infralens.suites.diffsynth.lab_06_video_latent_and_frame_dimension import live


@question("WanPipeline is asked for 84 frames (time by 4): how many latent frames does it denoise?")
def latent_frames_of_84() -> int:
    """84 becomes 85, one and 84 more, by 4: 22."""
    config = {"channels": 4, "temporal": 4, "spatial": 8, "patch": 2}
    latent: int = live.made(config, 1, 84, 16, 16)["latents"][2]
    return latent


@question(
    "AnimateDiff, two videos of 16 frames, latents of 8 × 12: how many rows does a temporal layer "
    "have in its batch, and how long is each?"
)
def rows_of_a_temporal_layer() -> tuple[int, int]:
    """A row for each pixel of each video, 2 · 8 · 12, of 16 frames."""
    rows = live.temporal_rows(torch.zeros(2 * 16, 4, 8, 12), 16)
    return rows.shape[0], rows.shape[1]


@question("SkyReels-V2 with blocks of two frames: at how many of six frames does frame 2 look?")
def frames_that_are_seen() -> int:
    """Frames are counted from 0: 2 and 3 are a block, and 0 and 1 came before."""
    return int(live.looked_at("causal", 6, 1, 2, 2)[2 * 2].sum()) // 2


@question(
    "21 × 30 × 52 tokens: how many times as many scores has full attention as a spatial and a "
    "temporal layer together, to the nearest whole number?"
)
def price_of_full_attention() -> int:
    """(21 · 1560)² against 21 · 1560² and 1560 · 21²."""
    frames, pixels = 21, 30 * 52
    return round((frames * pixels) ** 2 / (frames * pixels**2 + pixels * frames**2))


@question(
    "Wan from a first and a last picture, 9 frames, time by 4: what do the four mask channels say "
    "of the last latent frame?",
    choices=("0 0 0 1", "1 0 0 0", "1 1 1 1", "0 0 0 0"),
)
def mask_of_the_last() -> str:
    """Of the four frames that it stands for the last one is known."""
    still = torch.zeros(1, 3, 4, 4)
    condition = live.image_to_video(4).condition(still, still, 9)
    return " ".join(f"{value:.0f}" for value in condition[0, :4, -1, 0, 0].tolist())


@question("LTXImageToVideoPipeline: which timestep is the first frame told, in every call?")
def timestep_of_the_picture() -> int:
    """0: it has no noise."""
    run = live.FirstFrame(
        noise=torch.zeros(1, live.CHANNELS, 2, 2, 2),
        first=torch.ones(1, live.CHANNELS, 1, 2, 2),
        text=torch.zeros(1, 3, live.TEXT),
        steps=2,
    ).run()
    (told,) = {float(levels[0, 0]) for _, levels in run.calls}
    return int(told)


@question(
    "FreeNoise on 25 frames, windows of 16, 4 apart: how many are there, and where does the last "
    "begin?"
)
def windows_of_25() -> tuple[int, int]:
    """0, 4 and 8 fit and end at 24; one more ends at 25 and begins at 9."""
    windows = live.free_noise_windows(25, 16, 4)
    return len(windows), windows[-1][0]
