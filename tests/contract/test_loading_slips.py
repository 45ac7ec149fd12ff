"""What the page of diffsynth/lab-02 says of the library itself, held against the release here."""

from __future__ import annotations

import warnings
from pathlib import Path
from unittest import mock

import accelerate
import diffusers
import pytest
import safetensors.torch
import torch
from diffusers.models import modeling_utils

from infralens.suites.diffsynth.lab_02_model_loading_path import live

FEW = "decoder.conv_out.weight"


def folder(place: Path, without: str) -> Path:
    """A saved VAE whose file lacks a tensor."""
    for name, data in live.saved_vae(10**6, None).items():
        (place / name).write_bytes(data)
    path = place / f"{live.STEM}.safetensors"
    state = safetensors.torch.load_file(path)
    del state[without]
    safetensors.torch.save_file(state, path, {"format": "pt"})
    return place


def test_a_missing_file_is_looked_for_as_a_pickle(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(live.saved_vae(10**6, None)["config.json"])
    with (
        mock.patch.object(modeling_utils.logger, "error") as told,
        pytest.raises(OSError, match=rf"{live.STEM}\.bin"),
    ):
        diffusers.AutoencoderKL.from_pretrained(tmp_path)
    assert told.called


def test_a_missing_key_stays_on_meta_and_decode_runs(tmp_path: Path) -> None:
    vae = diffusers.AutoencoderKL.from_pretrained(folder(tmp_path, FEW))
    assert vae.get_parameter(FEW).is_meta
    with torch.no_grad():
        assert vae.decode(torch.zeros(1, 4, 4, 4)).sample.shape == (1, 3, 8, 8)
    with pytest.raises(NotImplementedError):
        vae.to("cpu", torch.float16)


@pytest.mark.parametrize("without", [FEW, "decoder.mid_block.attentions.0.to_v.weight"])
def test_what_decode_returns_then_was_never_written(tmp_path: Path, without: str) -> None:
    """Deterministic torch fills memory with NaN when it is taken: nothing was put in its place."""
    vae = diffusers.AutoencoderKL.from_pretrained(folder(tmp_path, without))
    torch.use_deterministic_algorithms(True)
    try:
        with torch.no_grad():
            assert vae.decode(torch.zeros(1, 4, 4, 4)).sample.isnan().all()
    finally:
        torch.use_deterministic_algorithms(False)


def test_without_low_memory_a_missing_key_is_random(tmp_path: Path) -> None:
    place = folder(tmp_path, FEW)
    one, two = (
        diffusers.AutoencoderKL.from_pretrained(place, low_cpu_mem_usage=False) for _ in range(2)
    )
    assert not torch.equal(one.get_parameter(FEW), two.get_parameter(FEW))


def test_the_flux_converter_has_one_width() -> None:
    state = {n: torch.zeros(*s) for n, s in live.flux_shapes(12, 1, 1).items()}
    with pytest.raises(RuntimeError):
        live.converted_flux(state)


@pytest.mark.parametrize(("blocks", "converted"), [([8, 0], [0]), ([1, 0], [0, 1])])
def test_the_flux_converter_counts_by_the_last_of_a_set(
    blocks: list[int], converted: list[int]
) -> None:
    shapes = live.flux_shapes(live.WIDTH, 9, 1)
    rest = [name for name in shapes if not name.startswith("double_blocks")]
    part = [name for i in blocks for name in shapes if name.startswith(f"double_blocks.{i}.")]
    made = live.converted_flux({name: torch.zeros(*shapes[name]) for name in [*part, *rest]})
    found = {int(name.split(".")[1]) for name in made if name.startswith("transformer_blocks")}
    assert sorted(found) == converted


def test_to_casts_what_wan_keeps() -> None:
    loaded = live.wan_loaded(live.wan().state_dict(), torch.bfloat16)
    kept = [name for name, tensor in loaded.items() if tensor.dtype == torch.float32]
    assert kept
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = dict(live.wan().config)
        cast = diffusers.WanTransformer3DModel.from_config(config).to(torch.bfloat16)
    assert all(cast.state_dict()[name].dtype == torch.bfloat16 for name in kept)


def test_a_models_dtype_passes_over_names_that_contain_a_kept_one() -> None:
    class Part(diffusers.ModelMixin, diffusers.ConfigMixin):
        _keep_in_fp32_modules = ("norm1",)

        def __init__(self) -> None:
            super().__init__()
            self.norm1_context = torch.nn.Linear(2, 2).to(torch.float16)
            self.last = torch.nn.Linear(2, 2)

    assert Part().dtype == torch.float32


def test_an_unsaved_buffer_is_lost_on_meta_and_not_with_empty_weights() -> None:
    class Part(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.ones(2), persistent=False)

    with torch.device("meta"):
        assert Part().get_buffer("table").is_meta
    with accelerate.init_empty_weights():
        assert not Part().get_buffer("table").is_meta
