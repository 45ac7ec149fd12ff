"""What the page of diffsynth/lab-01 says of the library itself, held against the release here."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import diffusers
import pytest
import torch

from infralens.suites import configs as live
from infralens.suites.networks import frozen, seeded

SD = "StableDiffusionPipeline"


def test_a_misspelt_override_is_dropped_without_a_word() -> None:
    made, unused = diffusers.EulerDiscreteScheduler.from_config(
        diffusers.DDIMScheduler().config, return_unused_kwargs=True, timestep_spacng="trailing"
    )
    assert made.config.timestep_spacing == "linspace"
    assert unused["timestep_spacng"] == "trailing"


def test_what_no_scheduler_knows_is_told_and_what_one_knows_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logger = logging.getLogger("diffusers.configuration_utils")
    logger.addHandler(caplog.handler)
    before = logger.level
    logger.setLevel("WARNING")
    try:
        for name, told in (("clip_sample", False), ("of_tomorrow", True)):
            caplog.clear()
            diffusers.EulerDiscreteScheduler.from_config({name: False})
            assert (name in caplog.text) is told
    finally:
        logger.setLevel(before)
        logger.removeHandler(caplog.handler)


def test_what_a_class_does_not_know_is_kept_and_comes_back() -> None:
    first = diffusers.DDIMScheduler(clip_sample=False)
    between = diffusers.EulerDiscreteScheduler.from_config(first.config)
    assert between.config.clip_sample is False
    assert '"clip_sample": false' in between.to_json_string()
    assert diffusers.DDIMScheduler.from_config(between.config).config.clip_sample is False


def test_wans_ratio_is_what_the_config_declares() -> None:
    config = live.wan(3, (True, False), 6)
    vae = live.made("AutoencoderKLWan", config)
    assert vae.spatial_compression_ratio == 8
    assert live.encoded(config) == (4, 2, 6)
    pipe = live.pipeline("WanPipeline", vae=vae, scheduler=live.flow())
    assert (pipe.vae_scale_factor_spatial, pipe.vae_scale_factor_temporal) == (8, 4)


def test_qwens_pipeline_takes_the_time_list_for_space() -> None:
    config = live.qwen(3, (False, True), 6)
    vae = live.made("AutoencoderKLQwenImage", config)
    assert live.pipeline("QwenImagePipeline", vae=vae).vae_scale_factor == 4
    vae.temperal_downsample = vae.temperal_downsample[:1]
    assert live.pipeline("QwenImagePipeline", vae=vae).vae_scale_factor == 2


def test_ltx_with_a_patch_of_two_fails() -> None:
    vae = live.ltx((True, False), 4, 8)
    for channels in (8, 32):
        network = live.DENOISERS["LTXVideoTransformer3DModel"](
            in_channels=channels, out_channels=channels, patch_size=2
        )
        with pytest.raises(RuntimeError):
            live.tokens(vae, network, 64, 96, 9)


def test_ltxs_patch_in_time_cannot_be_encoded() -> None:
    config = live.ltx((True, False), 4, 8) | {"patch_size_t": 2}
    vae = live.made("AutoencoderKLLTXVideo", config)
    with pytest.raises(RuntimeError), torch.no_grad():
        vae.encode(torch.empty(1, 3, 18, 64, 96, device=live.META))


@pytest.mark.parametrize("kind", ["StableDiffusion3Pipeline", "FluxPipeline"])
def test_a_wrong_number_of_channels_runs_through_the_loop(kind: str) -> None:
    assert live.place_of_failure(kind) == "RuntimeError, in the VAE"


def test_wan_from_an_image_cannot_read_a_prompt_without_ftfy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from diffusers.pipelines.wan import pipeline_wan_i2v

    monkeypatch.delattr(pipeline_wan_i2v, "ftfy", raising=False)
    with pytest.raises(NameError, match="ftfy"):
        pipeline_wan_i2v.prompt_clean("a cat")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("pipeline")
    for name, data in live.Folder("fp16", ("unet",)).contents().items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return place


def loaded(folder: Path, **said: Any) -> Any:
    return live.class_named(SD).from_pretrained(folder, tokenizer=None, **said)


def test_the_name_of_a_dtype_in_words_is_float32(folder: Path) -> None:
    assert loaded(folder, dtype="float16").unet.dtype == torch.float32


def test_a_misspelt_component_of_a_dict_is_ignored(folder: Path) -> None:
    pipe = loaded(folder, dtype={"uent": torch.float16})
    assert pipe.unet.dtype == torch.float32


def test_a_file_without_a_dot_breaks_every_variant(folder: Path) -> None:
    note = folder / "vae" / "LICENSE"
    note.write_text("free", encoding="utf-8")
    try:
        loaded(folder)
        with pytest.raises(IndexError):
            loaded(folder, variant="fp16")
    finally:
        note.unlink()


def test_the_beginning_of_a_variant_is_taken_for_it(folder: Path) -> None:
    with pytest.raises(ValueError, match="fp2"):
        loaded(folder, variant="fp2")
    with pytest.raises(OSError, match="fp1"):
        loaded(folder, variant="fp1")


def test_sizes_that_do_not_divide_are_rounded_down() -> None:
    with seeded(0):
        network = frozen(live.network(live.DENOISERS["FluxTransformer2DModel"](in_channels=16)))
    pipe = live.pipeline(
        "FluxPipeline",
        vae=live.shell(live.kl(2, 4)),
        transformer=network,
        scheduler=live.flow(),
    )
    tokens = pipe(
        prompt_embeds=torch.zeros(1, 3, 16),
        pooled_prompt_embeds=torch.zeros(1, 8),
        height=18,
        width=16,
        num_inference_steps=1,
        output_type="latent",
    ).images
    assert tokens.shape[1] == 4 * 4  # of 4.5 × 4
