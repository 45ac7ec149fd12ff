"""Makes the tokenizer: byte-level BPE in the files of `CLIPTokenizer`, one token per known word.

The merges are learned by plain byte-pair encoding on the words of the captions until each of them
is a single token. A word outside the list falls apart into the pieces that exist, down to letters
and bytes, as with every CLIP tokenizer.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path

from infralens.shapes.drawing import BACKGROUNDS, COLOURS, SHAPES, SIZES

MAX_TOKENS = 24
"""Length to which prompts are padded and cut, start and end tokens included."""

START, END = "<|startoftext|>", "<|endoftext|>"
WORD_END = "</w>"


def known_words() -> list[str]:
    """Words that get a token of their own, each once, in a fixed order."""
    filler = ["a", "an", "the", "on", "of", "and", "with", "shape", "background", "picture"]
    return list(dict.fromkeys([*filler, *SIZES, *COLOURS, *SHAPES, *BACKGROUNDS]))


def byte_symbols() -> list[str]:
    """The 256 printable characters that stand for the bytes, in the order CLIP lists them."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    symbols = [chr(b) for b in printable]
    return symbols + [chr(256 + n) for n in range(256 - len(printable))]


def learn_merges(vocabulary: list[str]) -> list[tuple[str, str]]:
    """Merge the most frequent neighbouring pair until every word is one symbol."""
    split = [[*word[:-1], word[-1] + WORD_END] for word in vocabulary]
    merges: list[tuple[str, str]] = []
    while True:
        pairs = Counter(pair for word in split for pair in itertools.pairwise(word))
        if not pairs:
            return merges
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        split = [_merged(word, best) for word in split]


def _merged(word: list[str], pair: tuple[str, str]) -> list[str]:
    out: list[str] = []
    i = 0
    while i < len(word):
        if tuple(word[i : i + 2]) == pair:
            out.append(word[i] + word[i + 1])
            i += 2
        else:
            out.append(word[i])
            i += 1
    return out


def write_tokenizer(folder: Path) -> None:
    """Write vocab.json, merges.txt and the two configuration files into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    merges = learn_merges(known_words())
    symbols = byte_symbols()
    tokens = [*symbols, *(s + WORD_END for s in symbols), *(a + b for a, b in merges), START, END]
    vocab = {token: number for number, token in enumerate(tokens)}
    special = {"bos_token": START, "eos_token": END, "unk_token": END, "pad_token": END}
    _write_json(folder / "vocab.json", vocab)
    lines = ["#version: 0.2", *(f"{a} {b}" for a, b in merges)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    _write_json(folder / "special_tokens_map.json", special)
    config = {
        "tokenizer_class": "CLIPTokenizer",
        "model_max_length": MAX_TOKENS,
        "do_lower_case": True,
        "errors": "replace",
        "add_prefix_space": False,
        **special,
    }
    _write_json(folder / "tokenizer_config.json", config)


def _write_json(path: Path, value: object) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=1)
    path.write_text(text + "\n", encoding="utf-8")
