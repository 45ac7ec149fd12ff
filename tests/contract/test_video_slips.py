"""What the page of diffsynth/lab-06 says of the library itself, held against the one here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from diffusers import AnimateDiffPipeline

from infralens.suites.diffsynth.lab_06_video_latent_and_frame_dimension import live

LENGTH, STRIDE = 6, 4


def test_new_frames_are_divided_by_the_weight_of_the_first_of_them() -> None:
    hidden = torch.randn(2, 13, 8, generator=torch.Generator().manual_seed(0))
    end = live.layer(hidden[:, -LENGTH:])
    blended = live.blended(hidden, LENGTH, STRIDE, "pyramid")
    weights = torch.tensor([3.0, 2.0, 1.0])  # of frames 10, 11 and 12
    torch.testing.assert_close(blended[:, -3:], end[:, -3:] * weights[:, None] / weights[0])
    assert (blended[:, -3:] - end[:, -3:]).abs().max() > 1
    torch.testing.assert_close(live.blended(hidden, LENGTH, STRIDE, "flat")[:, -3:], end[:, -3:])


def test_a_stride_above_the_length_leaves_zeros() -> None:
    blended = live.blended(torch.randn(2, 16, 8), 4, 6, "pyramid")
    assert blended.abs().amax((0, 2)).eq(0).nonzero().flatten().tolist() == [4, 5, 10, 11]


def noise(latents: torch.Tensor | None) -> Any:
    pipe = SimpleNamespace(
        _free_noise_context_length=4,
        _free_noise_context_stride=4,
        _free_noise_noise_type="repeat_context",
        vae_scale_factor=8,
    )
    made = AnimateDiffPipeline._prepare_latents_free_noise(
        pipe, 1, 2, 8, 16, 16, torch.float32, torch.device("cpu"), None, latents
    )
    return made[:, :, :4], made[:, :, 4:]


def test_repeated_noise_is_not_repeated() -> None:
    one, other = noise(None)
    assert one.shape == other.shape
    assert not torch.equal(one, other)
    assert torch.equal(*noise(torch.randn(1, 2, 4, 2, 2)))


def test_the_nearest_number_of_frames_is_above_and_below() -> None:
    config = {"channels": 4, "temporal": 4, "spatial": 8, "patch": 2}
    made = [live.made(config, 1, frames, 16, 16)["latents"][2] for frames in (84, 83)]
    assert [4 * (latent - 1) + 1 for latent in made] == [85, 81]


def test_two_pictures_for_two_videos_do_not_fit() -> None:
    pipe, pictures = live.image_to_video(2).pipe, torch.zeros(2, 3, 4, 4)
    with pytest.raises(RuntimeError, match="Sizes of tensors"):
        pipe.prepare_latents(
            pictures, 2, live.CHANNELS, 4, 4, 5, torch.float32, torch.device("cpu")
        )
