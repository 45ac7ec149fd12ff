"""Formulas as the pages write them, set for a browser; sentences stay as they are."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from infralens.labs import find_labs
from infralens.show.site.formulas import mathml
from infralens.show.site.sentences import is_formula, pieces_of
from infralens.show.site.tokens import FormulaError
from infralens.show.site.typesetting import FENCE, block

EXERCISES = find_labs()[0].place.exercises
PAGES = sorted(EXERCISES.rglob("*.md"))


def words_of(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", html))


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("x_(t−1)", "<msub><mi>x</mi><mrow><mi>t</mi><mo>−</mo><mn>1</mn></mrow></msub>"),
        ("σ_η²", "<msubsup><mi>σ</mi><mrow><mi>η</mi></mrow><mrow><mn>2</mn></mrow></msubsup>"),
        ("x0'", "<msubsup><mi>x</mi><mrow><mn>0</mn></mrow><mrow><mo>′</mo></mrow></msubsup>"),
        ("1 / (1 − β)", "<mfrac><mrow><mn>1</mn></mrow><mrow><mn>1</mn><mo>−</mo><mi>β</mi>"),
        ("√(σ + 1)", "<msqrt><mrow><mi>σ</mi><mo>+</mo><mn>1</mn></mrow></msqrt>"),
        ("√σ·(a)", "<msqrt><mrow><mi>σ</mi></mrow></msqrt>"),
        ("(a)·(b) / c", "(</mo><mi>b</mi>"),
        ("init_noise_sigma", "<mtext class='code'>init_noise_sigma</mtext>"),
        ("a<b", "<mo>&lt;</mo>"),
        ("∇ log p", '<mi>log</mi><mspace width="0.2em"/><mi>p</mi>'),
        ("e^(a / b)", '<mi>a</mi><mo lspace="0" rspace="0">/</mo><mi>b</mi>'),
        ("Norm_1e-6(x)", "<msub><mi>Norm</mi>"),
    ],
)
def test_a_formula_is_set(written: str, told: str) -> None:
    found = mathml(written, display=True)
    assert told in found
    ElementTree.fromstring(found)


@pytest.mark.parametrize("text", ["(a", "a)", "x_", "√", "a /", "‖x", "a # b"])
def test_what_is_no_formula_is_not_set(text: str) -> None:
    with pytest.raises(FormulaError):
        mathml(text)
    assert not is_formula(text)


@pytest.mark.parametrize(
    ("sentence", "formulas"),
    [
        ("One step is x_t = √α_t·x_(t−1), with fresh z.", ["x_t = √α_t·x_(t−1)", "z"]),
        ("(of which ᾱ_s is one)", ["ᾱ_s"]),
        ("since x_0 and (1 − ᾱ) add", ["x_0", "(1 − ᾱ)"]),
        ("It is a V100's, or an A4; DDPM's steps_offset isn't.", []),
        ("The type v_prediction, at 30 / s.", ["30 / s"]),
        ('From "n = 0 to T − 1" it runs.', ["n = 0", "T − 1"]),
    ],
)
def test_formulas_are_found_within_sentences(sentence: str, formulas: list[str]) -> None:
    pieces = list(pieces_of(sentence))
    assert [piece for is_set, piece in pieces if is_set] == list(map(mathml, formulas))
    rest = sentence
    for formula in formulas:
        rest = rest.replace(formula, "", 1)
    assert "".join(piece for is_set, piece in pieces if not is_set) == rest


def test_what_stands_below_each_other_does_so_in_a_block() -> None:
    rows = block("a  = b + c    its <sum> & all\nd  = e\n").split("</tr>")
    assert [words_of(cell) for cell in rows[0].split("</td>")] == [
        "a",
        "=b+c",
        "its &lt;sum&gt; &amp; all",
        "",
    ]
    assert 'colspan="2"' in rows[1]
    assert "<math" not in block("one thing  = another of them")
    parted = block("ab = c\nd  = e\n").split("</tr>")
    assert [words_of(cell) for cell in parted[0].split("</td>")] == ["ab", "=c", ""]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_every_block_of_formulas_is_set(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for source in re.findall(rf"^```{FENCE}\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        made = block(source)
        assert "<math" in made, source
        ElementTree.fromstring(re.sub(r"&(?!amp;|lt;|gt;|quot;|#)", "&amp;", made))
