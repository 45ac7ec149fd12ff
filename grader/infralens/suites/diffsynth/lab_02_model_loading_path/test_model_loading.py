"""Lab 02 of diffsynth: what the learner loads by hand against what the libraries load."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor

from infralens.examiner import (
    Draw,
    assert_equals,
    assert_form,
    assert_raises,
    given,
    recorded,
    todo,
)
from infralens.suites.diffsynth.lab_02_model_loading_path import given as here
from infralens.suites.diffsynth.lab_02_model_loading_path import live
from infralens.suites.diffsynth.lab_02_model_loading_path.live import STEM, Reader, State

BESIDE = Path(here.__file__).read_text(encoding="utf-8")
FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)

# 2.1


def draw_numbers(draw: Draw, tag: str, shape: Sequence[int]) -> Tensor:
    """Numbers of this kind; the smallest integers are there too."""
    dtype = live.TAGS[tag]
    if dtype.is_floating_point:
        return draw.latents(*shape).to(dtype)
    return (draw.tensor(*shape, high=2 if tag == "BOOL" else 200)).floor().to(dtype)


def draw_file(draw: Draw, spaces: int, metadata: Mapping[str, str] | None) -> bytes:
    """A file with a tensor of each kind; its header is in another order than its data."""
    header: dict[str, Any] = {}
    data, empty = b"", ""
    shapes = [[draw.integer(2, 5), draw.integer(2, 4)] for _ in live.TAGS]
    b, *others = draw.sample(range(len(shapes) - 1), len(shapes) - 1)
    a, c = others[:2]
    shapes[a], shapes[b] = [], [0, draw.integer(2, 4)]
    shapes[c] = [2, 3, draw.integer(2, 4)]
    for i, (tag, shape) in enumerate(zip(draw.sample(list(live.TAGS), 8), shapes, strict=True)):
        tensor = draw_numbers(draw, tag, shape)
        piece = bytes(tensor.reshape(-1).view(torch.uint8).tolist()) if tensor.numel() else b""
        begin, data = len(data), data + piece
        name = f"part.{i}.{tag}"
        empty = name if i == b else empty
        header[name] = {
            "dtype": tag,
            "shape": shape,
            "data_offsets": [begin, len(data)],
        }
    names = draw.sample(sorted(header), len(header))
    names.append(names.pop(names.index(empty)))  # behind the one that begins at the same byte
    shuffled = {name: header[name] for name in names}
    if metadata is not None:
        shuffled = {"__metadata__": dict(metadata)} | shuffled
    return live.with_header(shuffled, data, spaces)


@todo("2.1")
@pytest.mark.parametrize("metadata", [{"format": "pt", "trained": "yesterday"}, None])
def test_the_header_says_where_each_tensor_lies(
    candidate: Any, draw: Draw, metadata: dict[str, str] | None
) -> None:
    """Tag, shape, place and metadata are safetensors', and only the header's bytes were read."""
    data = draw_file(draw, draw.integer(1, 9), metadata)
    reader = Reader(data)
    answer = candidate.read_header(reader.read, len(data))
    assert_equals(answer, library=lambda: live.header_of(data), what="the header")
    length = int.from_bytes(data[:8], "little")
    assert_equals(reader.given, value=8 + length, what="how many bytes were read")


def draw_crafted(draw: Draw) -> dict[str, bytes]:
    """Files of two tensors in which one thing is wrong; the first ones are right."""
    a, b = 4 * draw.integer(2, 5), 2 * draw.integer(2, 5)

    def file(
        one: tuple[int, int] = (0, a), two: tuple[int, int] = (a, a + b), more: int = 0, **said: Any
    ) -> bytes:
        entries = [
            {"dtype": "F32", "shape": [a // 4], "data_offsets": list(one)} | said,
            {"dtype": "F16", "shape": [b // 2], "data_offsets": list(two)},
        ]
        header = dict(zip(draw.sample("xy", 2), entries, strict=True))
        return live.with_header(header, bytes(a + b + more))

    right = file()
    header = right[8 : -a - b]
    return {
        "a right file": right,
        "data in the other order": file((b, a + b), (0, b)),
        "no tensor at all": live.with_header({}, b""),
        "bytes behind the last tensor": file(more=draw.integer(1, 9)),
        "a hole": file(two=(a + 2, a + b + 2), more=2),
        "a hole before the first": file((2, a + 2), (a + 2, a + b + 2), more=2),
        "an overlap": file(two=(a - 2, a + b - 2))[:-2],
        "two tensors in one place": live.with_header(
            {n: {"dtype": "U8", "shape": [a], "data_offsets": [0, a]} for n in "xy"}, bytes(a)
        ),
        "a shape that needs more bytes": file(shape=[a // 4 + 1]),
        "a dtype that needs fewer bytes": file(dtype="BF16"),
        "a tag that nobody knows": file(dtype="F31"),
        "a file that ends early": right[:-1],
        "a header that is longer than the file": (
            (len(right) - 8 + draw.integer(1, 50)).to_bytes(8, "little") + right[8:]
        ),
        "a length that is no length": b"\xff" * 8 + right[8:],
        "a file of a few bytes": right[: draw.integer(1, 7)],
        "no JSON": live.with_header(header[:-1], right[-a - b :]),
        "a list for a header": live.with_header([], b""),
    }


@todo("2.1")
def test_a_header_that_cannot_be_right_is_an_error(candidate: Any, draw: Draw) -> None:
    """What safetensors refuses raises ValueError, and what it takes is read."""
    for what, data in draw_crafted(draw).items():
        if live.is_refused(data):
            assert_raises(
                lambda data=data: candidate.read_header(Reader(data).read, len(data)),  # type: ignore[misc]
                "ValueError",
                what=f"the header of a file with {what}",
            )
        else:
            answer = candidate.read_header(Reader(data).read, len(data))
            assert_equals(
                answer,
                library=lambda data=data: live.header_of(data),  # type: ignore[misc]
                what=f"the header of {what}",
            )


# 2.2


def draw_rows(draw: Draw, count: int) -> tuple[int, int]:
    start = draw.integer(1, count - 1)
    return start, draw.integer(start + 1, count)


def assert_read(
    candidate: Any, data: bytes, name: str, rows: tuple[int, int] | None, what: str
) -> None:
    """The rows are those of safetensors, and no other bytes were read."""
    entry, reader = live.header_of(data)[0][name], Reader(data)
    answer = candidate.read_tensor(reader.read, entry, rows)
    library = functools.cache(lambda: live.sliced(data, name, rows))
    assert_equals(answer, library=library, what=what)
    right = library()
    assert_equals(
        reader.given, value=right.numel() * right.element_size(), what="how many bytes were read"
    )


@todo("2.2")
@pytest.mark.parametrize("tag", live.TAGS)
def test_a_tensor_is_read_bit_for_bit(candidate: Any, draw: Draw, tag: str) -> None:
    """A whole tensor and some of its rows are safetensors', and only their bytes were read."""
    data, rows, columns = b"", draw.integer(3, 6), draw.integer(2, 4)
    tensors = {
        "before": draw_numbers(draw, "F32", [draw.integer(1, 5)]),
        "it": draw_numbers(draw, tag, [rows, columns, 2]),
    }
    data = safetensors.torch.save(tensors)
    assert_read(candidate, data, "it", None, f"a tensor of {tag}")
    assert_read(candidate, data, "it", draw_rows(draw, rows), f"rows of a tensor of {tag}")


@todo("2.2")
def test_nothing_and_a_single_number_are_tensors_too(candidate: Any, draw: Draw) -> None:
    """A tensor without axes, tensors without elements and a slice of no rows have their shapes."""
    tag, width = draw.choice(["F64", "F16", "BF16", "I32"]), draw.integer(2, 5)
    shapes = {"number": [], "no rows": [0, width], "no columns": [3, 0], "vector": [width]}
    tensors = {name: draw_numbers(draw, tag, shape) for name, shape in shapes.items()}
    data = safetensors.torch.save(tensors)
    for name in shapes:
        assert_read(candidate, data, name, None, f"a tensor of {tag} of shape {shapes[name]}")
    assert_read(candidate, data, "no columns", (1, 3), "rows without elements")
    at = draw.integer(0, width)
    assert_read(candidate, data, "vector", (at, at), "a slice of no rows")
    assert_read(candidate, data, "vector", draw_rows(draw, width), "some of a vector")


@todo("2.2")
def test_a_tag_without_a_rule_is_an_error(candidate: Any, draw: Draw) -> None:
    """Another tag raises ValueError."""
    for tag in draw.sample(["F8_E4M3", "C64", "F4", "f32", "Q4_0"], 2):
        entry = (tag, [4], 8, 24)
        assert_raises(
            lambda entry=entry: candidate.read_tensor(Reader(bytes(40)).read, entry, None),  # type: ignore[misc]
            "ValueError",
            what=f"a tensor of {tag}",
        )


# 2.3


def reading(files: Mapping[str, bytes]) -> Any:
    """`read_json` of a folder."""

    def read_json(name: str) -> Any:
        if not isinstance(name, str) or name not in files:
            raise FileNotFoundError(f"there is no {name!r:.100}")
        return json.loads(files[name])

    return recorded(read_json, "read_json")


def draw_folder(draw: Draw, kind: str) -> dict[str, bytes]:
    """A folder of this kind, and things that are no weights of it."""
    small, large = draw.choice([9, 12, 16, 22]), 10**6
    whole, shards = live.saved_vae(large, None), live.saved_vae(small, None)
    half, halves = live.saved_vae(large, "fp16"), live.saved_vae(small, "fp16")
    stale = {
        f"{STEM}-00001-of-00099.safetensors": whole[f"{STEM}.safetensors"],
        f"{STEM}.fp16-00001-of-00099.safetensors": whole[f"{STEM}.safetensors"],
    }
    parts = {
        "a single file": [whole],
        "shards": [shards],
        "shards and a single file": [whole, shards],
        "shards beside old shards": [shards, stale],
        "both variants": [whole, half],
        "both variants in shards": [shards, halves],
        "a variant's shards beside a single file of it": [whole, half, halves, stale],
    }[kind]
    files = {name: data for part in parts for name, data in part.items()}
    files |= {"README.md": b"", "adapter.safetensors": whole[f"{STEM}.safetensors"]}
    return {name: files[name] for name in draw.sample(sorted(files), len(files))}


FOLDERS = [
    ("a single file", None),
    ("shards", None),
    ("shards and a single file", None),
    ("shards beside old shards", None),
    ("both variants", "fp16"),
    ("both variants in shards", "fp16"),
    ("both variants in shards", None),
    ("a variant's shards beside a single file of it", "fp16"),
]


@todo("2.3")
@pytest.mark.parametrize(("kind", "variant"), FOLDERS)
def test_the_files_are_those_that_from_pretrained_opens(
    candidate: Any, draw: Draw, kind: str, variant: str | None
) -> None:
    """The names are those of the files that AutoencoderKL.from_pretrained opens, in its order."""
    files = draw_folder(draw, kind)
    answer = candidate.weight_files(list(files), reading(files), variant)
    assert_equals(
        answer,
        library=lambda: live.opened(files, variant),
        what=f"the files of a folder with {kind}",
    )


@todo("2.3")
def test_what_is_not_there_is_an_error(candidate: Any, draw: Draw) -> None:
    """A named file that is not there, and a folder without weights, raise FileNotFoundError."""
    shards = live.saved_vae(draw.choice([9, 12, 16]), None)
    lost = draw.choice([name for name in sorted(shards) if "-of-" in name])
    plain = dict(live.saved_vae(10**6, None))
    folders: list[tuple[str, dict[str, bytes], str | None]] = [
        ("a shard missing", {n: data for n, data in shards.items() if n != lost}, None),
        (
            "a shard missing and a single file",
            {n: data for n, data in (plain | dict(shards)).items() if n != lost},
            None,
        ),
        ("a config alone", {"config.json": b"{}"}, None),
        ("a pickle", {"config.json": b"{}", f"{STEM}.bin": b""}, None),
        ("plain weights alone, and a variant asked for", plain, draw.choice(["fp16", "ema"])),
        ("plain shards alone, and a variant asked for", dict(shards), draw.choice(["fp16", "ema"])),
    ]
    for what, files, variant in folders:
        assert_raises(
            lambda files=files, variant=variant: candidate.weight_files(  # type: ignore[misc]
                list(files), reading(files), variant
            ),
            "FileNotFoundError",
            what=f"a folder with {what}",
        )


@todo("2.3")
def test_an_index_names_no_file_of_another_folder(candidate: Any, draw: Draw) -> None:
    """A path in the name of a shard raises ValueError, also where names hold it."""
    shard = f"{STEM}-00001-of-00002.safetensors"
    for path in (f"../{shard}", f"/tmp/{shard}", f"a/{shard}", f"..\\{shard}"):
        weights = {f"layer.{i}": shard for i in range(draw.integer(1, 4))}
        index = {"weight_map": weights | {"layer.last": path}}
        files = {f"{live.INDEX}.json": json.dumps(index).encode(), shard: b""}
        there = [*files, path] if draw.integer(0, 1) else list(files)
        assert_raises(
            lambda there=there, files=files: candidate.weight_files(there, reading(files), None),  # type: ignore[misc]
            "ValueError",
            what=f"an index that names {path}",
        )


# 2.4


def draw_found(draw: Draw, expected: Mapping[str, list[int]]) -> dict[str, list[int]]:
    """A file that lacks some names, has some more, and has other shapes for some."""
    names = draw.sample(sorted(expected), len(expected))
    lost, other = draw.integer(2, 4), draw.integer(2, 4)
    found = {name: list(expected[name]) for name in names[lost:]}
    for name in names[lost : lost + other]:
        found[name] = [found[name][0] + draw.integer(1, 3), *found[name][1:]]
    found[names[lost]] = [*expected[names[lost]], 1]  # as many elements, and as many rows
    wide = next(name for name in names[lost + other :] if len(expected[name]) > 1)
    found[wide][-1] += draw.integer(1, 3)  # as many rows, and more elements
    extra = draw.sample(["ema.decay", "loss.logvar", "a.weight", "encoder.z.bias"], 2)
    return found | {name: [draw.integer(1, 4)] for name in extra}


@todo("2.4")
def test_the_report_is_that_of_from_pretrained(candidate: Any, draw: Draw) -> None:
    """Missing, unexpected and mismatched names are those that from_pretrained of a VAE tells."""
    expected = live.vae_shapes((8, 8))
    found = draw_found(draw, expected)
    answer = candidate.key_report(expected, found, [])
    assert_equals(answer, library=lambda: live.vae_report(found), what="the report")


@todo("2.4", guards="a file that fits")
def test_a_file_that_fits_has_nothing_to_report(candidate: Any, draw: Draw) -> None:
    """Where names and shapes agree there are three empty lists."""
    expected = live.vae_shapes((8, 8))
    found = {name: expected[name] for name in draw.sample(sorted(expected), len(expected))}
    answer = candidate.key_report(expected, found, [])
    assert_equals(answer, value=([], [], []), what="the report")


@todo("2.4")
@pytest.mark.parametrize("kept", [0, 1])
def test_a_tied_name_is_found_under_its_other_name(candidate: Any, draw: Draw, kept: int) -> None:
    """T5's embedding has two names and is saved under one: the other one is not missing."""
    expected = live.shapes_of(live.t5().state_dict())
    group = live.TIED[0]
    others = [name for name in sorted(expected) if name not in group]
    gone = {group[1 - kept], *draw.sample(others, draw.integer(1, 3))}
    found = {name: shape for name, shape in expected.items() if name not in gone}
    answer = candidate.key_report(expected, found, live.TIED)
    assert_equals(answer, library=lambda: live.t5_report(found), what="the report of a T5")


@todo("2.4")
def test_a_group_of_which_nothing_is_found_is_missing(candidate: Any, draw: Draw) -> None:
    """Where no name of a group is found, all of them are missing, and other groups do not help."""
    a, b, c = (f"{word}.weight" for word in draw.sample(["head", "body", "tail", "wte"], 3))
    size = [draw.integer(2, 5)]
    expected = dict.fromkeys((a, b, c, "norm.bias", "norm.weight"), size)
    answer = candidate.key_report(expected, {"norm.bias": size}, [[a, b, c], ["norm.bias", "x"]])
    assert_equals(
        answer, value=(sorted([a, b, c, "norm.weight"]), [], []), what="the report of a tied group"
    )


# 2.5, 2.6


def assert_state(answer: Any, names: Sequence[str], library: Callable[[], State]) -> None:
    """The answer has these names, and under each the library's tensor."""
    wanted = functools.cache(library)
    form = dict.fromkeys(names, "Tensor|tensor of a number")
    assert_form(answer, form, what="the new names")
    for name in names:
        assert_equals(
            answer[name],
            library=lambda name=name: wanted()[name],  # type: ignore[misc]
            what=name,
        )


WIDTHS: dict[str, list[tuple[int, ...]]] = {
    "two levels": [(8, 8)],
    "three alike": [(8, 8, 8)],
    "three": [(4, 8, 8), (4, 4, 8)],
}


@todo("2.5")
@pytest.mark.parametrize("levels", WIDTHS)
def test_an_old_vae_gets_the_names_of_diffusers(candidate: Any, draw: Draw, levels: str) -> None:
    """Names, shapes and values are those that diffusers' own conversion gives."""
    widths = draw.choice(WIDTHS[levels])
    shapes = live.vae_shapes(widths)
    old = live.old_vae({n: draw.latents(*shape) for n, shape in shapes.items()}, len(widths))
    old = {name: old[name] for name in draw.sample(sorted(old), len(old))}
    answer = candidate.convert_vae(old, len(widths))
    assert_state(answer, sorted(shapes), lambda: live.converted_vae(old, len(widths)))


@todo("2.6", again=False, guards="diffusers' own conversion, at the one width that it has")
def test_an_old_flux_gets_the_names_of_diffusers(candidate: Any, draw: Draw) -> None:
    """Names, shapes and values are those that diffusers' own conversion gives."""
    shapes = live.flux_shapes(live.WIDTH, 1, draw.integer(1, 2))
    old = {name: draw.latents(*shapes[name]) for name in draw.sample(sorted(shapes), len(shapes))}
    answer = candidate.convert_flux_blocks(old, live.WIDTH)
    names = sorted(live.converted_flux(old))
    assert_state(answer, names, lambda: live.converted_flux(old))


@todo("2.6")
def test_a_small_flux_loads_what_was_converted(candidate: Any, draw: Draw) -> None:
    """From the old names of a small Flux's own tensors come its names and tensors again."""
    new = live.renumbered(live.flux_state(draw), 1, draw.integer(10, 18))
    width = live.flux().config.attention_head_dim * live.flux().config.num_attention_heads
    answer = candidate.convert_flux_blocks(live.old_flux(new), width)
    assert_form(answer, dict.fromkeys(new, "Tensor"), what="the new names")
    for name, tensor in new.items():
        assert_equals(answer[name], value=tensor, what=name)


# 2.7

KEPT = ("norm1", "scale_table")
SHAPES = {
    "norm1_context.weight": [4],
    "norm1.weight": [4],
    "blocks.0.norm1.linear.weight": [6, 4],
    "blocks.0.proj.weight": [4, 4],
    "blocks.1.norm1.linear.weight": [6, 4],
    "blocks.1.proj.weight": [4, 4],
    "blocks.1.my_scale_table": [2, 4],
    "scale_table": [2, 4],
    "stats.weight": [4],
}


class Case:
    """A module on meta, and the files that fill it."""

    def __init__(self, draw: Draw, stored: torch.dtype = torch.float16) -> None:
        self.shapes = {name: SHAPES[name] for name in draw.sample(sorted(SHAPES), len(SHAPES))}
        self.buffers = {
            "stats.running_mean": draw.latents(4),
            "stats.num_batches_tracked": torch.tensor(draw.integer(1, 9)),
        }
        self.unsaved = {"frequencies": draw.latents(5)}
        state = {name: draw.latents(*shape).to(stored) for name, shape in self.shapes.items()}
        state["stats.running_mean"] = draw.latents(4).to(stored)
        state["stats.num_batches_tracked"] = torch.tensor(draw.integer(300, 9999))
        self.left_out = draw.choice(sorted(SHAPES))
        state["ema.decay"] = draw.latents(2).to(stored)
        order = draw.sample(sorted(state), len(state))
        count = draw.integer(2, 4)
        labels = draw.sample(["b.st", "a.st", "d.st", "c.st"], count)
        self.files = {
            label: {name: state[name] for name in order[i::count]} for i, label in enumerate(labels)
        }

    def empty(self, beside: Any) -> Any:
        """The module, in the candidate or here."""
        return beside.empty(self.shapes, self.buffers, self.unsaved)

    def filled(self, dtype: torch.dtype) -> State:
        """What diffusers makes of it."""
        return live.filled(self.empty(here), list(self.files.values()), dtype, KEPT)


def assert_held(beside: Any, module: Any, library: Callable[[], State], what: str) -> None:
    """The module in the candidate holds the library's tensors, dtypes included; none is on meta."""
    wanted = functools.cache(library)

    def kinds() -> dict[str, list[str]]:
        return {name: [t.device.type, str(t.dtype)] for name, t in wanted().items()}

    told = beside.kinds(module)
    assert_equals(told, library=kinds, what=f"where {what} is, and its dtypes")
    held = beside.tensors(module)
    for name in sorted(wanted()):
        assert_equals(
            held[name],
            library=lambda name=name: wanted()[name],  # type: ignore[misc]
            what=f"{name} of {what}",
        )


@todo("2.7")
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_module_is_filled_from_meta(candidate: Any, draw: Draw, dtype: torch.dtype) -> None:
    """Numbers and dtypes are those that diffusers' loader leaves, and each file is read once."""
    stored = torch.float16 if dtype.itemsize > 2 else torch.float32  # never what is asked for
    case, beside = Case(draw, stored), given(candidate, BESIDE)
    module = case.empty(beside)
    read = recorded(lambda name: case.files[name], "read_shard")
    candidate.load_low_memory(module, read, list(case.files), dtype, list(KEPT))
    asked = [call[0] for call in read.calls]
    assert_equals(asked, value=list(case.files), what="the files that were read")
    assert_held(beside, module, lambda: case.filled(dtype), "the module")


@todo("2.7", guards="the rule of keep on a network that has one")
def test_wan_keeps_what_it_keeps(candidate: Any, draw: Draw) -> None:
    """With Wan's own list the dtypes are those of WanTransformer3DModel.from_pretrained."""
    state = {n: t + draw.uniform(0.1, 0.9) for n, t in live.wan().state_dict().items()}
    beside = given(candidate, BESIDE)
    module = beside.empty(live.shapes_of(state), {}, {})
    keep = list(live.WAN_KEEPS)
    candidate.load_low_memory(module, lambda name: state, ["all"], torch.bfloat16, keep)
    assert_held(beside, module, lambda: live.wan_loaded(state, torch.bfloat16), "the module")


@todo("2.7")
def test_what_no_file_has_is_an_error(candidate: Any, draw: Draw) -> None:
    """A parameter that is still on meta at the end raises ValueError."""
    case, beside = Case(draw), given(candidate, BESIDE)
    for shard in case.files.values():
        shard.pop(case.left_out, None)
    module = case.empty(beside)
    assert_raises(
        lambda: candidate.load_low_memory(
            module, lambda name: case.files[name], list(case.files), torch.float16, list(KEPT)
        ),
        "ValueError",
        what=f"a module whose {case.left_out} is in no file",
    )
