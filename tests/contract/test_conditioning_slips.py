"""What the page of diffsynth/lab-05 says of the library itself, held against the release here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from infralens.suites import configs
from infralens.suites.diffsynth.lab_05_conditioning_flow import live
from infralens.suites.networks import seeded


@pytest.fixture(autouse=True)
def _same_draws() -> Any:
    with seeded(0):
        yield


def conditions(prompts: int) -> dict[str, Tensor]:
    return {
        "encoder_hidden_states": torch.randn(prompts, 3, 6),
        "text_embeds": torch.randn(prompts, 5),
    }


def test_xl_repeats_the_pair_of_time_ids_beside_states_in_halves() -> None:
    found = live.into_unet(conditions(2), conditions(2), 1, **live.NEGATIVE)["time_ids"]
    plus, minus = live.time_ids(), live.time_ids("negative")
    assert torch.equal(found, torch.cat([minus, plus, minus, plus]))


def kontext() -> Any:
    parts = {"transformer": live.Denoiser(lambda tokens, _: tokens), "scheduler": configs.flow()}
    return configs.pipeline("FluxKontextPipeline", **parts)


def test_kontext_tiles_references_beside_prompts_that_stand_together() -> None:
    references = torch.tensor([1.0, 2.0]).reshape(2, 1, 1, 1).expand(2, 16, 2, 2)
    pipe = kontext()
    _, tokens, _, _ = pipe.prepare_latents(references, 4, 16, 16, 16, torch.float32, "cpu")
    encoder = live.Encoder(lambda ids: (ids[:, :, None].float(),))
    stand_in = SimpleNamespace(
        _execution_device="cpu",
        tokenizer_2=live.Words(["none", "one", "two"]),
        text_encoder=encoder,
        text_encoder_2=encoder,
        tokenizer_max_length=1,
    )
    embeds = type(pipe)._get_t5_prompt_embeds(stand_in, ["one", "two"], 2)
    assert tokens[:, 0, 0].tolist() == [1, 2, 1, 2]
    assert embeds[:, 0, 0].tolist() == [1, 1, 2, 2]


def test_clip_skip_leaves_the_negative_side_where_it_is() -> None:
    assert live.sdxl_negative_layer(clip_skip=1) == 3


def test_sd3_ignores_its_attention_mask() -> None:
    weights = live.drawn_joint(8, 2)
    image, text = torch.randn(1, 5, 8), torch.randn(1, 4, 8)
    mask = torch.zeros(1, 1, 1, 9, dtype=torch.bool)
    plain = live.joint_of_sd3(image, text, weights, 2)
    masked = live.joint_of_sd3(image, text, weights, 2, attention_mask=mask)
    assert torch.equal(plain[0], masked[0])
    assert torch.equal(plain[1], masked[1])


def test_an_image_prompt_without_a_scale_is_dropped() -> None:
    weights = {
        **{f"{name}.weight": torch.randn(8, 8) for name in ("to_q", "to_k", "to_v", "to_out.0")},
        "to_k_ip.0.weight": torch.randn(8, 8),
        "to_v_ip.0.weight": torch.randn(8, 8),
        "to_out.0.bias": torch.randn(8),
    }
    hidden, text, one, other = (torch.randn(1, n, 8) for n in (5, 4, 3, 6))
    both = live.image_prompted(hidden, text, [one, other], weights, 2, [0.5])
    alone = live.image_prompted(hidden, text, [one], weights, 2, [0.5])
    assert torch.equal(both, alone)


def test_sd3_cuts_clips_that_are_too_wide() -> None:
    hidden, pooled = [torch.randn(1, 2, 3), torch.randn(1, 2, 4)], [torch.randn(1, 2)] * 2
    embeds, _ = live.sd3_encoded(hidden, pooled, None, 5, 2)
    assert torch.equal(embeds[:, :2], torch.cat(hidden, dim=-1)[..., :5])


def test_a_list_of_no_negatives_passes_for_an_empty_text() -> None:
    table = live.Table(["a", "b", ""], torch.randn(3, 2, 4), torch.randn(3, 4))
    _, (embeds, _) = table.through_sdxl(["a", "b"], [], force_zeros=False)
    assert torch.equal(embeds, table.hidden[[2, 2]])


def test_embeddings_without_negative_ones_are_guided_against_zeros() -> None:
    given = conditions(1)
    pipe = live.sdxl(6, 5)
    embeds, negative, _, pooled = pipe.encode_prompt(
        None,
        prompt_embeds=given["encoder_hidden_states"],
        pooled_prompt_embeds=given["text_embeds"],
    )
    assert embeds.any()
    assert not negative.any()
    assert not pooled.any()


def test_wan_repeats_two_images_to_four() -> None:
    class Encoded:
        config = SimpleNamespace(latents_mean=[0.0] * 4, latents_std=[1.0] * 4, z_dim=4)
        dtype, device = torch.float32, torch.device("cpu")

        def modules(self) -> list[Any]:
            return []

        def encode(self, video: Tensor) -> Any:
            return SimpleNamespace(latents=video[:, :1, :1].repeat(1, 4, 1, 1, 1))

    pipe = SimpleNamespace(
        vae=Encoded(),
        vae_scale_factor_temporal=4,
        vae_scale_factor_spatial=1,
        config=SimpleNamespace(expand_timesteps=False),
    )
    prepare = live.pipeline_class("WanImageToVideoPipeline").prepare_latents

    def prepared(images: int) -> Any:
        return prepare(
            pipe, torch.zeros(images, 3, 2, 2), 2, 4, 2, 2, 1, torch.float32, torch.device("cpu")
        )

    assert prepared(1)[1].shape == (2, 8, 1, 2, 2)
    with pytest.raises(RuntimeError, match="Sizes of tensors must match"):
        prepared(2)
