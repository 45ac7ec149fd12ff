"""`infralens generate`: a picture from words, as a newcomer first meets it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from PIL import Image

from infralens import shapes
from infralens.cli import main

PROMPT = "a large red circle on black background"


def run(*words: str) -> Result:
    return CliRunner(catch_exceptions=False).invoke(main, ["generate", *words])


def test_a_picture_of_the_prompt_is_written(tmp_path: Path) -> None:
    out = tmp_path / "star.png"
    result = run(PROMPT, "--out", str(out), "--seed", "3")
    assert result.exit_code == 0, result.output
    assert result.stdout == f"{out}: 256 x 256 pixels\n"
    assert result.stderr == ""
    with Image.open(out) as picture:
        assert picture.size == (256, 256)
        red, green, blue = picture.convert("RGB").getpixel((128, 128))
        assert red > 150
        assert max(green, blue) < 110
        assert max(picture.convert("RGB").getpixel((4, 4))) < 60


def test_a_folder_that_is_not_there_is_told_before_anything_is_drawn(tmp_path: Path) -> None:
    result = run(PROMPT, "--out", str(tmp_path / "new" / "star.png"))
    assert result.exit_code == 2
    assert "there is no folder" in result.stderr
    assert not (tmp_path / "new").exists()


def test_a_seed_gives_the_same_picture_again_and_another_another(tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.png" for name in ("one", "two", "three")]
    for path, seed in zip(files, ("1", "1", "2"), strict=True):
        assert run(PROMPT, "--out", str(path), "--seed", seed, "--steps", "4").exit_code == 0
    one, two, three = (path.read_bytes() for path in files)
    assert one == two != three


def test_words_that_were_never_shown_are_named_once(tmp_path: Path) -> None:
    out = tmp_path / "dog.png"
    result = run("a mauve dog, a MAUVE dog", "--out", str(out), "--steps", "1")
    assert result.exit_code == 0
    assert "was never shown 'mauve' or 'dog'. It knows the sizes small and large" in result.stderr
    assert out.is_file()


def test_all_that_it_knows_is_known() -> None:
    assert shapes.unknown_words(PROMPT) == []
    assert shapes.unknown_words("Two red squares!") == ["two", "squares"]


def test_of_many_unknown_words_a_few_are_named_and_none_in_full_length(tmp_path: Path) -> None:
    words = ["--out", str(tmp_path / "x.png"), "--steps", "1", "--negative-prompt", "z" * 10_000]
    result = run("re\u0301d " + " ".join(f"w{n}x" for n in range(9)), *words)
    assert result.exit_code == 0
    assert "never shown 'réd' or 'w0x' or 'w1x' or 'w2x' or 'w3x' or 5 more words." in result.stderr
    assert "zzz…'" in result.stderr
    assert max(map(len, result.stderr.splitlines())) < 400


def test_what_a_prompt_says_beyond_the_models_tokens_is_told(tmp_path: Path) -> None:
    words = ["--out", str(tmp_path / "x.png"), "--steps", "1"]
    result = run("the " * 21 + "red circle", *words)
    assert result.exit_code == 0
    assert f"the model reads only '{'the ' * 21}red'." in result.stderr
    assert run("the " * 20 + "red circle", *words).stderr == ""


def test_a_damaged_model_is_a_sentence_and_exit_code_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(shapes.FOLDER, tmp_path / "pipeline")
    shutil.copytree(shapes.CONTROLNET_FOLDER, tmp_path / "controlnet")
    shutil.copytree(shapes.LORA_FOLDER, tmp_path / "lora")
    monkeypatch.setattr(shapes, "MANIFEST", Path(shutil.copy(shapes.MANIFEST, tmp_path)))
    (tmp_path / "pipeline" / "more").write_bytes(b"")  # of no harm
    words = [PROMPT, "--steps", "1", "--out", str(tmp_path / "x.png")]
    assert run(*words).exit_code == 0
    weights = tmp_path / "pipeline" / "unet" / "diffusion_pytorch_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    for said in ("has changed", "is missing"):
        result = run(*words)
        assert result.exit_code == 3
        assert result.stderr.count("\n") == 1
        assert f"pipeline/unet/diffusion_pytorch_model.safetensors {said}" in result.stderr
        weights.unlink(missing_ok=True)
    shapes.MANIFEST.write_text("{", encoding="utf-8")
    assert "MANIFEST.json cannot be read" in run(*words).stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--negative-prompt", "bad\udcff"], "The prompt is not UTF-8 text."),
        (["--out", "star.jpg"], "star.jpg does not end in .png"),
        (["--steps", "0"], "0 is not in the range"),
        (["--guidance-scale", "nan"], "nan is no number"),
        (["--enlarge", "1000"], "1000 is not in the range"),
    ],
)
def test_wrong_usage_is_told_before_anything_is_loaded(words: list[str], says: str) -> None:
    result = run(PROMPT, *words)
    assert result.exit_code == 2
    assert says in result.stderr


def test_a_file_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    out = tmp_path / "file" / "star.png"
    result = run(PROMPT, "--out", str(out), "--steps", "1")
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr
