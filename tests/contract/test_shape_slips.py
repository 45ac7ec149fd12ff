"""What the page of diffsynth/lab-03 says of the libraries themselves, held against those here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import diffusers
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from infralens.suites import configs
from infralens.suites.diffsynth.lab_03_latent_shape_tracking import live
from infralens.suites.networks import frozen, seeded


def test_wan_drops_the_tail_of_a_clip_without_a_word() -> None:
    with seeded(0):
        vae = frozen(configs.network(configs.wan(3, (True, True), 4)))
        video = torch.randn(1, 3, 7, 16, 16)
    encoded = [vae.encode(video[:, :, :n]).latent_dist.mean for n in (7, 5)]
    assert torch.equal(*encoded)


def test_wan_takes_four_frames_whatever_its_ratio() -> None:
    assert live.encoded(live.video_vae("wan", 2), 3) == 1


def test_what_wans_pipeline_calls_the_nearest_number_is_not() -> None:
    assert 8 * (live.made_frames(15, 8) - 1) + 1 == 9  # and 17 is nearer


def test_a_ratio_of_one_gets_a_frame_too_many() -> None:
    assert live.made_frames(5, 1) == 6


def test_fluxs_positions_fall_together_in_bfloat16() -> None:
    ids = diffusers.FluxPipeline._prepare_latent_image_ids(1, 300, 1, "cpu", torch.bfloat16)
    rows = ids[:, 1].float()
    assert len(rows.unique()) == 279
    assert rows[255:261].tolist() == [255, 256, 256, 258, 260, 260]


def test_qwens_text_begins_where_the_picture_ends() -> None:
    rope = live.QwenEmbedRope(10_000, [4, 4, 4], scale_rope=True)
    _, text = rope([(1, 6, 10)], None, max_txt_seq_len=2)
    angles = torch.atan2(text.imag, text.real)
    slow = (angles[:, 1::2] * 100).round().long()
    assert slow.tolist() == [[5, 5, 5], [6, 6, 6]]


def test_stable_video_mixes_two_videos_in_one_chunk() -> None:
    class Decoder:
        config, seen = SimpleNamespace(scaling_factor=1.0), list[Any]()

        def forward(self, sample: torch.Tensor, num_frames: int = 1) -> None: ...

        def decode(self, latents: torch.Tensor, num_frames: int) -> Any:
            self.seen.append((latents[:, 0, 0, 0].tolist(), num_frames))
            return SimpleNamespace(sample=latents)

    decoder = Decoder()
    latents = torch.tensor([0.0, 1.0]).reshape(2, 1, 1, 1, 1).expand(2, 5, 1, 1, 1)
    diffusers.StableVideoDiffusionPipeline.decode_latents(
        SimpleNamespace(vae=decoder), latents, 5, 3
    )
    assert ([0.0, 0.0, 1.0], 3) in decoder.seen


def test_cogvideox_asks_for_frames_beyond_the_end() -> None:
    """A slice forgives that: five frames are cut as one batch of thirteen."""
    assert live.cogvideox_batches(5, 8) == [(0, 5)]


@pytest.mark.skipif(torch.cuda.is_available(), reason="the kernel of the CPU is meant")
def test_torch_does_not_count_the_flash_kernel_of_the_cpu() -> None:
    config = live.wan_config(num_layers=3)
    grid, text = (3, 3, 4), 5
    with seeded(0):
        network = frozen(configs.network(config))
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        network(torch.zeros(1, 4, 3, 6, 8), torch.zeros(1), torch.zeros(1, text, live.TEXT))
    seen = sum(
        sum(operations.values())
        for name, operations in counter.get_flop_counts().items()
        if name.startswith("WanTransformer3DModel.blocks.") and name.endswith(".attn1")
    )
    counted = live.counted(config, 1, grid, text)["self"]
    assert (counted, counted - seen) == (870_912, 373_248)
