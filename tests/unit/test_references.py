"""Functions and methods out of files of diffusers, without the imports of those files."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from infralens.examiner.compare.references import library_function


def test_a_function_is_the_librarys_own() -> None:
    shift = library_function("pipelines/flux/pipeline_flux.py", "calculate_shift")
    assert shift(4096, 256, 4096, 0.5, 1.15) == pytest.approx(1.15)


def test_a_method_is_found_in_its_class() -> None:
    check = library_function("pipelines/flux/pipeline_flux.py", "FluxPipeline.check_inputs")
    assert "height" in check.__code__.co_varnames
    with pytest.raises(LookupError, match=r"has no function NoSuch\.method"):
        library_function("pipelines/flux/pipeline_flux.py", "NoSuch.method")
    with pytest.raises(LookupError, match=r"has no function FluxPipeline\.calculate_shift"):
        library_function("pipelines/flux/pipeline_flux_img2img.py", "FluxPipeline.calculate_shift")


def test_a_method_runs_on_what_it_needs_of_its_object() -> None:
    name = "StableDiffusionXLPipeline._get_add_time_ids"
    path = "pipelines/stable_diffusion_xl/pipeline_stable_diffusion_xl.py"
    width = SimpleNamespace(in_features=6 * 256 + 1280)
    unet = SimpleNamespace(
        config=SimpleNamespace(addition_time_embed_dim=256),
        add_embedding=SimpleNamespace(linear_1=width),
    )
    ids = library_function(path, name)(
        SimpleNamespace(unet=unet), (1, 2), (3, 4), (5, 6), torch.int64, 1280
    )
    assert ids.tolist() == [[1, 2, 3, 4, 5, 6]]
