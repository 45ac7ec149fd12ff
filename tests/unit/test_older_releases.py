"""An older diffusers is asked in its own words. The newest still understands them, and agrees."""

from __future__ import annotations

import importlib
from types import ModuleType

import diffusers
import pytest
import torch

from infralens.examiner import Draw
from infralens.suites import releases

SUITES = "infralens.suites"


@pytest.fixture(autouse=True)
def _known_marks(pytestconfig: pytest.Config) -> None:
    pytestconfig.addinivalue_line("markers", "todo: a suite's, whose modules are imported here")


def older(monkeypatch: pytest.MonkeyPatch, module: str) -> ModuleType:
    """A module of a suite that takes the installed release for the oldest that is allowed."""
    asked = importlib.import_module(f"{SUITES}.{module}")
    assert asked.since("0.36")
    monkeypatch.setattr(asked, "since", lambda release: False)
    return asked


@pytest.mark.parametrize(
    ("installed", "asked", "answer"),
    [
        ("0.42.1", "0.42", True),
        ("0.42.0.dev0", "0.42", True),
        ("0.41.0", "0.42", False),
        ("0.9.0", "0.40", False),
        ("1.0.0", "0.40", True),
    ],
)
def test_a_release_is_as_new_as_its_number(
    monkeypatch: pytest.MonkeyPatch, installed: str, asked: str, answer: bool
) -> None:
    monkeypatch.setattr(diffusers, "__version__", installed)
    assert releases.since(asked) is answer


@pytest.mark.filterwarnings("ignore:.*packed latents")
def test_flux_decodes_the_tokens_that_latents_are_packed_into(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draw = Draw(3, "older")
    lab = importlib.import_module(f"{SUITES}.diffusers.lab_05_vae_latent_space.test_vae_latents")
    vae, latents = lab.draw_vae(draw, "shifted"), draw.latents(4, 4, 6, 4)
    newest = lab.image_of_a_pipeline(vae, "shifted", latents)
    older(monkeypatch, "diffusers.lab_05_vae_latent_space.test_vae_latents")
    assert torch.equal(lab.image_of_a_pipeline(vae, "shifted", latents), newest)


@pytest.mark.filterwarnings("ignore:.*torch_dtype")
def test_a_pipeline_is_asked_for_half_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = older(monkeypatch, "diffusers.lab_06_diffusers_pipeline_components.tiny")
    pipe = tiny.pipeline(tiny.saved(), "cpu", torch.float16)
    assert {part.dtype for part in (pipe.unet, pipe.vae, pipe.text_encoder)} == {torch.float16}


def test_a_file_without_alphas_has_its_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = older(monkeypatch, "diffusers.lab_08_lora_injection_reading.test_lora_injection")
    adapters = lab.draw_stripes(Draw(3, "older"))
    ranks = {name: float(len(adapter["A"])) for name, adapter in adapters.items()}
    assert len(set(ranks.values())) > 1
    assert lab.numbers_in(lab.parsed_by_the_library(adapters)) == ranks


def test_wan_is_handed_what_its_text_encoder_made(monkeypatch: pytest.MonkeyPatch) -> None:
    live = older(monkeypatch, "configs")
    lab = importlib.import_module(
        f"{SUITES}.diffsynth.lab_01_pipeline_config_reading.test_pipeline_config"
    )
    parts, needs = lab.draw_wan_wired(Draw(3, "older"))
    right = lab.put_together("WanPipeline", parts, needs)
    wrong = lab.put_together("WanPipeline", parts, needs, text_dim=needs["text_dim"] + 8)
    assert live.why_not("WanPipeline", right) == ""
    assert live.why_not("WanPipeline", wrong) != ""
