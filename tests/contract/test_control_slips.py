"""What the page of diffsynth/lab-09 says of the library itself, held against the one here."""

from __future__ import annotations

from types import SimpleNamespace

import diffusers
import pytest
import torch
from diffusers.models.transformers.transformer_flux import FluxIPAdapterAttnProcessor

from infralens.suites import schedulers
from infralens.suites.diffsynth.lab_09_multi_control import live
from infralens.suites.networks import frozen, seeded


def random(*shape: int) -> torch.Tensor:
    """Normal numbers, the same in each run."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def test_a_unet_empties_the_list_of_features() -> None:
    way = live.Way(live.unet((2, 2)), random(1, 4, 4, 4), torch.tensor(9), random(1, 3, live.TEXT))
    features = [random(*shape) for shape in way.shapes()]
    call = (way.sample, way.t, way.embeds)
    first, second, plain = (
        way.network(*call, down_intrablock_additional_residuals=given).sample
        for given in (features, features, None)
    )
    assert features == []
    assert torch.equal(second, plain)
    assert not torch.equal(first, plain)


def test_a_down_block_gets_its_feature_behind_its_downsampling() -> None:
    with seeded(0):
        unet = frozen(
            diffusers.UNet2DConditionModel(
                block_out_channels=(8, 8),
                layers_per_block=1,
                down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
                up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
                cross_attention_dim=8,
                attention_head_dim=2,
                norm_num_groups=4,
            )
        )
    features = [torch.zeros(1, 8, 8, 8), torch.zeros(1, 8, 4, 4)]
    with pytest.raises(RuntimeError, match="size of tensor"):
        unet(
            torch.zeros(1, 4, 8, 8),
            1,
            torch.zeros(1, 2, 8),
            down_intrablock_additional_residuals=features,
        )


def test_flux_ignores_the_masks_of_its_image_prompts() -> None:
    with seeded(0):
        processor = frozen(FluxIPAdapterAttnProcessor(16, 12, (4,), 1.0))
    text, picture, prompt = random(1, 3, 16), random(1, 6, 16), [random(1, 4, 12)]
    outputs = [
        processor(
            live.flux_attention(), picture, text, ip_hidden_states=prompt, ip_adapter_masks=masks
        )[2]
        for masks in (None, torch.zeros(1, 1, 6, 4))
    ]
    assert torch.equal(*outputs)
    assert outputs[0].abs().max() > 0


def test_pictures_share_a_softmax_without_masks_alone() -> None:
    scene = live.ImagePrompts(
        live.attention(2),
        2,
        random(1, 4, 16),
        random(1, 5, live.TEXT),
        (random(1, 2, 4, live.TEXT), random(1, 1, 6, live.TEXT)),
    )
    everywhere = torch.ones(8, 8)
    scales = [1.0, 1.0, 0.0]
    masked = scene.output(scales, [everywhere] * 3)
    plain = scene.output(scales, [None] * 3)
    assert not torch.allclose(masked, plain, atol=0.01)
    scene.attention.processor.scale = [[1.0, 0.5], 0.0]
    with pytest.raises(TypeError):  # a scale for each picture, and no masks
        scene.attention(scene.states, (scene.text, list(scene.pictures)))


def test_masks_are_repeated_in_another_order_than_prompts() -> None:
    pipe = diffusers.StableDiffusionInpaintPipeline
    masks = torch.arange(2.0).reshape(2, 1, 1, 1).expand(2, 1, 8, 8)
    repeated, _ = pipe.prepare_mask_latents(
        SimpleNamespace(vae_scale_factor=8),
        *(masks, torch.zeros(2, 4, 1, 1), 4, 8, 8, torch.float32, "cpu", None, False),
    )
    assert repeated.flatten().tolist() == [0, 1, 0, 1]
    prompts = torch.arange(2.0).reshape(2, 1, 1).expand(2, 3, 4)
    rows, _ = pipe.encode_prompt(
        SimpleNamespace(text_encoder=None, unet=SimpleNamespace(dtype=torch.float32)),
        None,
        "cpu",
        2,
        False,
        prompt_embeds=prompts,
    )
    assert rows[:, 0, 0].tolist() == [0, 0, 1, 1]


def test_a_small_picture_scale_turns_the_text_off_too() -> None:
    latents, image, text = random(1, 4, 2, 3), random(2, 4, 2, 3)[:1], random(1, 2, live.TEXT)
    run = live.instructed(latents, image, text, (0.9, 7.5))
    assert len(run.calls[0][0]) == 1  # one branch, and no guidance


def test_the_pipeline_refuses_an_empty_window() -> None:
    embeds = random(1, 2, live.TEXT)
    windows = [{"weight": 1.0, "start": 0.5, "end": 0.5}] * 3
    with pytest.raises(ValueError, match="cannot be larger or equal"):
        live.controlled(
            random(1, 4, 4, 4),
            (embeds, embeds),
            [torch.zeros(1, 3, 8, 8)] * 3,
            windows,
            schedulers.scheduler("EulerDiscreteScheduler"),
            3.0,
            2,
        )
