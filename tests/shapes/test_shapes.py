"""The shipped shapes pipeline: its files, its pictures and the judge that looks at them."""

from __future__ import annotations

import random
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from peft.tuners.lora import LoraLayer
from safetensors.torch import load_file
from torch import nn

from infralens import shapes
from infralens.shapes import (
    drawing,
    manifest,
    measuring,
    quality,
    sampling,
    training,
    vocabulary,
)
from infralens.shapes.__main__ import main as command_line
from infralens.shapes.__main__ import pick_device
from infralens.shapes.fitting import CheckpointError, Schedule, fit, step_generator
from infralens.shapes.sampling import Request

ROOT = Path(shapes.__file__).parent
pytestmark = pytest.mark.xdist_group("shapes")  # one pipeline, and its pictures, for all


@pytest.fixture(scope="module")
def pipe() -> Iterator[Any]:
    """The shipped pipeline, loaded while every connection fails."""

    def refuse(*_: object) -> None:
        raise OSError("this test runs offline")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", refuse)
        loaded = sampling.load_pipeline(shapes.FOLDER)
    threads = torch.get_num_threads()
    # Two threads that wait for each other are slower than one where others use the cores too.
    torch.set_num_threads(1)
    yield loaded
    torch.set_num_threads(threads)


# Files


def test_importing_the_package_does_not_import_torch() -> None:
    code = "import sys, infralens.shapes; sys.exit('torch' in sys.modules)"
    path = str(ROOT.parent.parent)
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": path}, check=False)
    assert done.returncode == 0


def test_files_are_the_ones_in_the_manifest() -> None:
    assert manifest.differences(ROOT) == []


def test_a_changed_a_missing_and_an_added_file_are_noticed(tmp_path: Path) -> None:
    for part in manifest.PARTS:
        shutil.copytree(ROOT / part, tmp_path / part)
    manifest.write_manifest(tmp_path)
    assert manifest.differences(tmp_path) == []
    (tmp_path / "pipeline" / "model_index.json").unlink()
    (tmp_path / "lora" / "extra.txt").write_text("x")
    merges = tmp_path / "pipeline" / "tokenizer" / "merges.txt"
    merges.write_text(merges.read_text() + "q q\n")
    damages = ["pipeline/model_index.json is missing", "pipeline/tokenizer/merges.txt has changed"]
    assert manifest.damages(tmp_path) == damages
    extra = "lora/extra.txt is not in the manifest"
    assert manifest.differences(tmp_path) == [*damages, extra]


@pytest.mark.parametrize("part", manifest.PARTS)
def test_folders_keep_to_their_size(part: str) -> None:
    assert 0 < manifest.folder_sizes(ROOT)[part] <= manifest.LIMITS[part]


def test_every_part_loads_in_the_same_type(pipe: Any) -> None:
    types = {next(m.parameters()).dtype for m in (pipe.vae, pipe.unet, pipe.text_encoder)}
    assert types == {torch.float32}


def test_scheduler_says_what_the_unet_predicts(pipe: Any) -> None:
    assert pipe.scheduler.config.prediction_type == "v_prediction"


# Tokenizer


def test_every_known_word_is_one_token(pipe: Any) -> None:
    for word in vocabulary.known_words():
        assert len(pipe.tokenizer(word).input_ids) == 3, word


def test_prompts_that_differ_have_tokens_that_differ(pipe: Any) -> None:
    texts = [c.caption for c in drawing.combinations()]
    ids = {tuple(pipe.tokenizer(text).input_ids) for text in texts}
    assert len(ids) == len(texts) == 384


def test_an_unknown_word_is_spelled_out(pipe: Any) -> None:
    tokens = pipe.tokenizer.tokenize("a mauve ring")
    assert tokens[0] == "a</w>"
    assert tokens[-1] == "ring</w>"
    assert len(tokens) > 3
    assert pipe.tokenizer.eos_token not in tokens


# Drawings and judge


def test_held_out_combinations_are_never_drawn() -> None:
    kept_back = drawing.held_out()
    assert len(kept_back) == 60
    assert kept_back == drawing.held_out.__wrapped__()
    for put in (drawing.place, drawing.scatter):
        drawn = {d.combination for d in drawing.draw_set(8000, seed=3, put=put)}
        assert drawn == set(drawing.combinations()) - kept_back


def test_words_of_a_combination_are_wrong_but_none_that_is_held_out_comes_out() -> None:
    rng = random.Random(5)
    right = [c for c in drawing.combinations() if c not in drawing.held_out()] * 12
    given = [drawing.mislabel(c, rng) for c in right]
    assert not drawing.held_out() & set(given)
    for word in ("size", "colour", "shape", "background"):
        wrong = [getattr(a, word) != getattr(b, word) for a, b in zip(right, given, strict=True)]
        # Less than WRONG_WORD: where a held-out combination would come out, nothing changes.
        assert 0.075 < np.mean(wrong) < 0.095


def test_a_training_caption_is_empty_whole_shortened_or_wrong() -> None:
    combination = drawing.Combination("small", "red", "star", "navy")
    assert combination not in drawing.held_out()
    drawings = [drawing.place(combination, random.Random(1))]
    given = training.captions(drawings, torch.zeros(4000, dtype=torch.long), seed=1, step=0)
    assert 0.08 < np.mean([text == "" for text in given]) < 0.12
    whole = [text for text in given if text in {c.caption for c in drawing.combinations()}]
    assert not {c.caption for c in drawing.held_out()} & set(whole)
    assert 0.66 < np.mean([text == combination.caption for text in whole]) < 0.76


def test_the_judge_reads_real_drawings() -> None:
    assert quality.judge(count=200) >= 0.99


@pytest.mark.parametrize(
    ("field", "value"),
    [("colour", "green"), ("background", "white"), ("size", "small"), ("shape", "cross")],
)
def test_the_judge_notices_each_wrong_word(field: str, value: str) -> None:
    asked = drawing.Combination("large", "red", "circle", "black")
    drawn = replace(asked, **{field: value})
    picture = drawing.paint(drawing.place(drawn, random.Random(1)))
    marks = measuring.mark(np.asarray(picture), asked)
    wrong = [n for n in ("colour", "background", "size", "shape") if not getattr(marks, n)]
    assert wrong == [field]


def test_the_judge_sees_nothing_in_noise_and_in_an_empty_picture() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (32, 32, 3))
    assert measuring.read(noise).shape == measuring.NONE
    assert measuring.read(np.full((32, 32, 3), 125)).colour == measuring.NONE


def test_stripes_are_told_from_even_fills() -> None:
    drawings = drawing.draw_set(150, seed=4)
    striped = [measuring.stripes(np.asarray(drawing.paint(d, striped=True))) for d in drawings]
    even = [measuring.stripes(np.asarray(drawing.paint(d))) for d in drawings]
    assert np.mean(np.array(striped) >= measuring.STRIPES_FROM) >= 0.95
    assert np.mean(np.array(even) >= measuring.STRIPES_FROM) <= 0.02


def test_stripes_of_a_dim_colour_count_as_those_of_a_bright_one() -> None:
    drawings = [d for d in drawing.draw_set(400, seed=5) if d.combination.size == "large"]

    def swing(colour: str) -> float:
        painted = [drawing.paint(d, True) for d in drawings if d.combination.colour == colour]
        return float(np.mean([measuring.stripes(np.asarray(picture)) for picture in painted]))

    assert swing("green") == pytest.approx(swing("yellow"), rel=0.1)


def test_the_judge_names_the_shapes_of_striped_drawings() -> None:
    drawings = drawing.draw_set(24, seed=6)
    pictures = [drawing.paint(d, striped=True) for d in drawings]
    wanted = [d.combination for d in drawings]
    assert quality.striped_shapes(pictures, wanted) >= 0.95
    others = [replace(c, shape=drawing.SHAPES[drawing.SHAPES.index(c.shape) - 1]) for c in wanted]
    assert quality.striped_shapes(pictures, others) <= 0.05


def test_no_shape_is_named_where_there_is_none() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (32, 32, 3))
    assert measuring.shape_in_stripes(noise) == measuring.NONE
    assert measuring.shape_in_stripes(np.full((32, 32, 3), 125)) == measuring.NONE


def test_overlap_falls_when_a_shape_moves() -> None:
    here = drawing.Drawing(drawing.Combination("small", "red", "square", "black"), 6.5, 12, 12)
    moved = replace(here, x=16.0)
    assert measuring.overlap(np.asarray(drawing.paint(here)), drawing.mask(here)) > 0.9
    assert measuring.overlap(np.asarray(drawing.paint(here)), drawing.mask(moved)) < 0.6


# Pictures


TARGETS = {"colour": 0.97, "background": 0.97, "size": 0.9, "shape": 0.92}


@pytest.fixture(scope="module")
def guided(pipe: Any) -> dict[str, float]:
    return quality.basic(pipe, count=40, unseen=8, seed=77)["all prompts"]


@pytest.mark.parametrize("word", list(TARGETS))
def test_forty_prompts_meet_the_target(guided: dict[str, float], word: str) -> None:
    assert guided[word] >= TARGETS[word]


def test_guidance_is_why(pipe: Any, guided: dict[str, float]) -> None:
    request = Request(guidance_scale=1.0)
    free = quality.basic(pipe, count=20, unseen=4, seed=77, request=request)["all prompts"]
    # Their captions were partly wrong in training: without guidance the pictures are so too.
    assert free["all"] <= guided["all"] - 0.15


def test_a_negative_prompt_keeps_a_colour_away(pipe: Any) -> None:
    texts = ["a large circle on black background", "a small square on white background"] * 6
    seeds = list(range(12))

    def cyans(word: str) -> int:
        pictures = sampling.sample(pipe, texts, seeds, Request(), negative_prompts=[word] * 12)
        return sum(measuring.read(np.asarray(p)).colour == "cyan" for p in pictures)

    # Cyan is what the shipped weights like best when no colour is named.
    assert cyans("") >= 2
    assert cyans("cyan") == 0


def test_pictures_are_drawn_on_one_thread_and_the_others_come_back() -> None:
    seen: list[int] = []

    class Pipe:
        device = torch.device("cpu")

        def __call__(self, prompts: Sequence[str], **options: object) -> SimpleNamespace:
            seen.append(torch.get_num_threads())
            return SimpleNamespace(images=[None] * len(prompts))

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        sampling.sample(Pipe(), ["a star"], [0], Request())
        assert (seen, torch.get_num_threads()) == ([1], 2)
    finally:
        torch.set_num_threads(before)


def test_four_pictures_are_quick(pipe: Any) -> None:
    wanted = quality.prompts(4, 1, 7)
    texts = [c.caption for c in wanted]
    sampling.sample(pipe, texts[:1], [0], Request(steps=2))
    # Processor time of one thread: other work on the machine does not count against it.
    start = time.process_time()
    sampling.sample(pipe, texts, [0, 1, 2, 3], Request())
    assert time.process_time() - start < 9.0


def controlled_overlap(pipe: Any, scale: float, count: int = 12) -> float:
    """Mean overlap of pictures with their controls; the prompts name neither shape nor size."""
    controlled = sampling.with_controlnet(pipe, shapes.CONTROLNET_FOLDER)
    wanted = quality.prompts(12, 4, seed=5)[:count]
    rng = random.Random(5)
    plans = [drawing.place(c, rng) for c in wanted]
    pictures = sampling.sample(
        controlled,
        [f"a {c.colour} shape on {c.background} background" for c in wanted],
        list(range(count)),
        Request(control_scale=scale),
        controls=[drawing.edges(plan) for plan in plans],
    )
    pairs = zip(pictures, plans, strict=True)
    return float(np.mean([measuring.overlap(np.asarray(p), drawing.mask(d)) for p, d in pairs]))


@pytest.fixture(scope="module")
def followed(pipe: Any) -> float:
    return controlled_overlap(pipe, 1.0)


def test_controlnet_pulls_pictures_towards_the_edges(pipe: Any, followed: float) -> None:
    assert followed > controlled_overlap(pipe, 0.0, count=6) + 0.03


def test_controlnet_meets_its_target(followed: float) -> None:
    assert followed >= 0.8


@pytest.fixture(scope="module")
def swings() -> dict[float, Any]:
    """Swing of the rows' brightness of pictures at each strength; -1 is without the LoRA.

    Of twelve, but for strength 0: where that changes nothing, those without the LoRA stand for it.
    """
    styled = sampling.load_pipeline(shapes.FOLDER)
    wanted = quality.prompts(12, 4, seed=6)

    def draw(count: int = 12) -> Any:
        texts = [c.caption for c in wanted[:count]]
        request = Request(guidance_scale=quality.STYLE_GUIDANCE)
        pictures = sampling.sample(styled, texts, list(range(count)), request)
        return np.array(quality.swings(pictures))

    found = {-1.0: draw()}
    styled.load_lora_weights(shapes.LORA_FOLDER, adapter_name=quality.ADAPTER)
    for strength in (0.0, 0.5, 1.0):
        styled.set_adapters([quality.ADAPTER], [strength])
        found[strength] = draw(12 if strength else 3)
    return found


def test_every_layer_of_the_adapters_file_is_loaded() -> None:
    """Of a file that mixes two spellings of keys, load_lora_weights reads one."""
    file = load_file(shapes.LORA_FOLDER / "pytorch_lora_weights.safetensors")
    layers = {key.removeprefix("unet.").rpartition(".lora_")[0] for key in file}
    styled = sampling.load_pipeline(shapes.FOLDER)
    styled.load_lora_weights(shapes.LORA_FOLDER, adapter_name=quality.ADAPTER)
    loaded = {n for n, layer in styled.unet.named_modules() if isinstance(layer, LoraLayer)}
    assert loaded == layers
    assert len(file) == 2 * len(layers)


def test_lora_at_strength_zero_changes_nothing(swings: dict[float, Any]) -> None:
    assert np.allclose(swings[0.0], swings[-1.0][:3], atol=0.01)


def test_lora_adds_stripes_at_strength_one(swings: dict[float, Any]) -> None:
    assert swings[1.0].mean() > 1.3 * swings[-1.0].mean()


def test_lora_grows_with_its_strength(swings: dict[float, Any]) -> None:
    """Twelve pictures say little: README.md has the shares of 300."""
    assert swings[-1.0].mean() < swings[0.5].mean() < swings[1.0].mean()
    assert np.mean(swings[1.0] >= measuring.STRIPES_FROM) >= 0.75


# The function for callers


def test_generate_counts_seeds_upwards() -> None:
    two = shapes.generate("a large red circle on black background", steps=4, seed=8, count=2)
    one = shapes.generate("a large red circle on black background", steps=4, seed=9)
    assert [picture.size for picture in two] == [(32, 32), (32, 32)]
    assert np.abs(np.asarray(two[1], int) - np.asarray(one[0], int)).max() <= 1
    assert np.abs(np.asarray(two[0], int) - np.asarray(two[1], int)).max() > 20


@pytest.mark.parametrize("wrong", [{"count": 0}, {"steps": 0}])
def test_generate_refuses_numbers_that_make_no_picture(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        shapes.generate("a red circle", **wrong)


# Training


def test_an_interrupted_stage_ends_like_an_uninterrupted_one(tmp_path: Path) -> None:
    schedule = Schedule(steps=12, batch=4, rate=0.05, warmup=2, ema=0.9)

    def run(checkpoint: Path, stop: int | None) -> torch.Tensor:
        torch.manual_seed(0)
        module = nn.Linear(3, 1)

        def loss_of(step: int) -> torch.Tensor:
            if step == stop:
                raise KeyboardInterrupt
            x = torch.randn(4, 3, generator=step_generator(1, step))
            return (module(x) - x.sum(dim=1, keepdim=True)).square().mean()

        fit("test", checkpoint, module, schedule, loss_of, save_every=0.0)
        return module.weight.detach().clone()

    whole = run(tmp_path / "whole.pt", None)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "parts.pt", 7)
    assert torch.equal(run(tmp_path / "parts.pt", None), whole)
    start = time.perf_counter()
    # A finished stage is loaded: its loss is never asked for.
    assert torch.equal(run(tmp_path / "parts.pt", 0), whole)
    assert time.perf_counter() - start < 5.0


def test_a_run_of_a_few_steps_makes_folders_that_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All stages in turn, as `python -m infralens.shapes train` has them, two steps each."""
    for name in ("VAE_PICTURES", "UNET_PICTURES", "CONTROL_PICTURES", "LORA_PICTURES"):
        monkeypatch.setattr(training, name, 16)
    short = Schedule(steps=2, batch=4, rate=1e-3, warmup=1, ema=0.9)
    plan = training.Plan(vae=short, unet=short, controlnet=short, lora=short)
    shop = training.Workshop.under(tmp_path, torch.device("cpu"), plan)
    took = training.train(shop)
    assert list(took) == ["vae", "text+unet", "controlnet", "lora"]
    manifest.write_manifest(tmp_path)
    assert manifest.differences(tmp_path) == []
    assert manifest.folder_sizes(tmp_path) == pytest.approx(manifest.folder_sizes(ROOT), rel=0.01)
    pipe = sampling.load_pipeline(tmp_path / "pipeline")
    pipe.load_lora_weights(tmp_path / "lora")
    controlled = sampling.with_controlnet(pipe, tmp_path / "controlnet")
    plans = [drawing.place(drawing.combinations()[0], random.Random(1))]
    controls = [drawing.edges(one) for one in plans]
    (picture,) = sampling.sample(controlled, ["a ring"], [1], Request(steps=2), controls=controls)
    assert picture.size == (32, 32)


def test_cuda_is_refused_where_there_is_none() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    assert pick_device("auto") == "cpu"
    with pytest.raises(SystemExit, match="CUDA"):
        pick_device("cuda")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["measure", "--out", "typo"], "typo holds no finished run: pipeline/model_index.json"),
        (["grid", "--out", "typo"], "train --out typo` makes it"),
        (["train", "--out", "file"], "file cannot be written"),
        (["train", "--out", "new", "--threads", "-3"], "invalid count value: '-3'"),
    ],
)
def test_a_run_that_cannot_be_is_wrong_usage(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("", encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        command_line(words)
    assert ended.value.code == 2
    assert says in capsys.readouterr().err
    assert not Path("typo").exists()


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    checkpoint = tmp_path / "one.pt"
    schedule = Schedule(steps=1, batch=1, rate=1e-3)
    layers = [torch.nn.Linear(2, 1), torch.nn.Linear(3, 1)]
    for layer in layers[:1]:
        fit("one", checkpoint, layer, schedule, lambda step: layers[0](torch.ones(2)).sum())
    for damage in (lambda: None, lambda: checkpoint.write_bytes(b"nothing")):
        damage()
        with pytest.raises(CheckpointError, match=r"one\.pt is damaged or belongs to other"):
            fit("one", checkpoint, layers[1], schedule, lambda step: torch.zeros(()))


def test_a_run_that_is_interrupted_says_how_it_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("infralens.shapes.__main__.measure", interrupt)
    assert command_line(["measure"]) == 130
    assert "goes on from the last checkpoint" in capsys.readouterr().err
