"""The wire: what may cross arrives as it was sent; what may not, and what is forged, is refused."""

from __future__ import annotations

import io
import json
import math
import struct
import subprocess
import sys
import tracemalloc
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from infralens import wire
from infralens.wire import (
    Callback,
    CannotCrossError,
    ChannelClosedError,
    ChannelError,
    Handle,
    Namespace,
    Raised,
    Remote,
    pack,
    read_frame,
    unpack,
)

RECORDS = [
    Handle(3, "Euler"),
    Callback(4, "denoiser"),
    Remote(5, "UNet", ("config", "dtype"), ("forward",)),
    Namespace({"prev_sample": 1.5, "names": ["a"]}),
    Raised(("ValueError", "Exception"), "no", ((7, "step", "raise ValueError('no')"),), True),
]


def crossed(value: Any) -> Any:
    """The value as it arrives."""
    return unpack(*read_frame(io.BytesIO(pack({"value": value}))))["value"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps this bound")
def test_where_memory_is_short_there_is_an_error_and_no_end_of_the_process() -> None:
    """Beyond its limits safetensors panics, which no except clause takes, or aborts."""
    code = """
import io, os, resource, torch
from infralens import wire
from infralens.examiner.memory.meter import extent

header, body = wire.read_frame(io.BytesIO(wire.pack({"x": torch.ones(2**23)})))
tensor = torch.ones(2**23)
for megabytes in range(16, 128, 4):
    most = extent(os.getpid()) + (megabytes << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, -1))
    for work in (lambda: wire.unpack(header, body), lambda: wire.pack({"x": tensor})):
        try:
            print("done", bool(work()))
        except (MemoryError, RuntimeError, wire.ChannelError):
            print("refused")
    resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
"""
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=90)
    assert (run.returncode, run.stderr) == (0, "")
    assert {"refused", "done True"} == set(run.stdout.splitlines())


def frame(tree: Any, body: bytes = b"") -> tuple[bytes, bytes]:
    """Header and body as a forger would write them: no rule is kept."""
    header = tree if isinstance(tree, bytes) else json.dumps(tree).encode()
    return header, body


def tensors_body(entries: Any, data: bytes) -> bytes:
    header = json.dumps(entries).encode()
    return struct.pack("<Q", len(header)) + header + data


def entry(dtype: str, shape: list[int], start: int, end: int) -> dict[str, Any]:
    return {"0": {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}}


def tensor_node(number: str = "0", device: str = "cpu") -> dict[str, Any]:
    return {"value": {"t": "tensor", "i": number, "d": device}}


# What may cross


@pytest.mark.parametrize(
    "value",
    [None, True, False, 0, 1, -(2**62), 2**63 - 1, 0.1, 1e308, 5e-324, "", "σ ✔ \x00", b"", b"\0x"],
    ids=repr,
)
def test_a_plain_value_arrives_with_its_type(value: Any) -> None:
    arrived = crossed(value)
    assert type(arrived) is type(value)
    assert arrived == value


def test_a_lone_surrogate_crosses() -> None:
    assert crossed("\ud800") == "\ud800"


def test_minus_zero_keeps_its_sign() -> None:
    assert math.copysign(1, crossed(-0.0)) == -1


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf], ids=repr)
def test_numbers_that_are_not_finite_cross(value: float) -> None:
    assert repr(crossed(value)) == repr(value)


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (np.float64(0.5), 0.5),
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.bool_(False), False),
    ],
    ids=["float64", "float32", "int64", "true", "false"],
)
def test_a_numpy_number_arrives_as_the_python_one(sent: Any, expected: Any) -> None:
    arrived = crossed(sent)
    assert type(arrived) is type(expected)
    assert arrived == expected


@pytest.mark.parametrize(
    "value",
    [[], (), {}, [1, (2.5, [None])], ([], ()), {"a": {"b": [True, 1]}, "t": "tuple"}],
    ids=repr,
)
def test_containers_keep_their_kind(value: Any) -> None:
    arrived = crossed(value)
    assert repr(arrived) == repr(value)


def test_a_dict_keeps_the_order_of_its_keys() -> None:
    assert list(crossed({"z": 1, "a": 2, "m": 3})) == ["z", "a", "m"]


def test_subclasses_of_plain_types_arrive_as_the_plain_type() -> None:
    class Text(str):
        def __str__(self) -> str:
            return "a lie"

    class Number(int):
        def __int__(self) -> int:
            return 99

    arrived = crossed([Text("true"), Number(3), OrderedDict(a=1)])
    assert arrived == ["true", 3, {"a": 1}]
    assert [type(item) for item in arrived] == [str, int, dict]


@pytest.mark.parametrize("dtype", wire.DTYPES.values(), ids=wire.DTYPES)
def test_a_tensor_of_each_dtype_arrives_bit_for_bit(dtype: torch.dtype) -> None:
    sent = torch.tensor([[0, 1, 2], [3, 100, 1]]).to(dtype)
    arrived = crossed(sent)
    assert arrived.dtype is dtype
    assert torch.equal(arrived, sent)


def test_every_bit_of_a_float_tensor_survives() -> None:
    sent = torch.tensor([0.0, -0.0, math.nan, math.inf, -math.inf, 1e-45])
    assert torch.equal(crossed(sent).view(torch.int32), sent.view(torch.int32))


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,)], ids=str)
def test_a_scalar_and_an_empty_tensor_keep_their_shape(shape: tuple[int, ...]) -> None:
    sent = torch.ones(shape)
    assert crossed(sent).shape == sent.shape


@pytest.mark.parametrize(
    "view",
    [
        torch.arange(12.0).reshape(3, 4).t(),
        torch.arange(12.0)[1::3],
        torch.tensor([1.5]).expand(3, 4),
        torch.arange(8.0).reshape(2, 2, 2).permute(2, 0, 1)[1],
        torch.ones(2, requires_grad=True) * 2,
        torch.nn.Parameter(torch.arange(3.0)),
    ],
    ids=["transposed", "strided", "expanded", "permuted", "with a gradient", "parameter"],
)
def test_a_view_arrives_as_a_plain_tensor_of_its_numbers(view: Tensor) -> None:
    arrived = crossed(view)
    assert type(arrived) is Tensor
    assert arrived.is_contiguous()
    assert not arrived.requires_grad
    assert torch.equal(arrived, view.detach())


def test_a_small_view_does_not_bring_its_storage() -> None:
    assert len(pack({"value": torch.zeros(100_000)[:2]})) < 1000


def test_a_tensor_that_shares_memory_twice_crosses_twice() -> None:
    sent = torch.arange(4.0)
    first, second, whole = crossed([sent, sent, sent[:]])
    assert torch.equal(first, sent)
    assert torch.equal(whole, sent)
    assert first.data_ptr() != second.data_ptr()


def test_a_tensor_subclass_cannot_lie_about_its_numbers() -> None:
    class Liar(Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return torch.full((3,), 7.0)

    arrived = crossed(torch.arange(2.0).as_subclass(Liar))
    assert type(arrived) is Tensor
    assert torch.equal(arrived, torch.arange(2.0))


def test_a_uint8_image_crosses() -> None:
    sent = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)[:, ::-1]
    arrived = crossed(sent)
    assert arrived.dtype == np.uint8
    assert np.array_equal(arrived, sent)


def test_dtypes_and_devices_cross() -> None:
    assert crossed([torch.bfloat16, torch.device("cpu")]) == [torch.bfloat16, torch.device("cpu")]


def test_a_generator_goes_on_where_it_stood() -> None:
    sent = torch.Generator().manual_seed(5)
    torch.randn(7, generator=sent)
    arrived = crossed(sent)
    assert arrived.initial_seed() == 5
    assert torch.equal(torch.randn(9, generator=arrived), torch.randn(9, generator=sent))


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_record_crosses(record: Any) -> None:
    assert crossed(record) == record


def test_a_long_text_of_an_exception_is_cut() -> None:
    arrived = crossed(Raised(("E" * 999,), "x" * 99_999, ((1, "f", "c" * 9999),) * 50))
    assert (len(arrived.type_name), len(arrived.text), len(arrived.frames)) == (200, 10_000, 20)


def test_objects_without_a_value_are_lent() -> None:
    sent = pack({"value": [object()]}, lambda value: Handle(9, type(value).__name__))
    assert unpack(*read_frame(io.BytesIO(sent)))["value"] == [Handle(9, "object")]


plain_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats()
    | st.text(max_size=20)
    | st.binary(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(plain_values)
@settings(max_examples=150, deadline=None)
def test_whatever_is_plain_arrives_as_it_was(value: Any) -> None:
    assert repr(crossed(value)) == repr(value)


# What may not cross


def cyclic() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(wire.MAX_DEPTH + 1):
        value = [value]
    return value


CANNOT_CROSS = {
    "sparse": (lambda: torch.eye(3).to_sparse(), "not dense"),
    "quantised": (
        lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8),
        "not dense",
    ),
    "meta": (lambda: torch.empty(2, device="meta"), "meta device"),
    "complex": (lambda: torch.ones(2, dtype=torch.complex64), "complex64"),
    "eight bit float": (lambda: torch.ones(2).to(torch.float8_e4m3fn), "float8"),
    "nested": (lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "nested"),
    "float array": (lambda: np.ones(2), "float64"),
    "array of objects": (lambda: np.array([{}, None]), "object"),
    "huge int": (lambda: 10**400, "bits"),
    "int of 64 bits": (lambda: 2**63, "64 bits"),
    "long text": (lambda: "x" * (wire.MAX_TEXT + 1), "characters"),
    "int keys": (lambda: {1: 2}, "key that is a int"),
    "cyclic": (cyclic, "contains itself"),
    "deep": (deep, "deep"),
    "many parts": (lambda: [0] * (wire.MAX_NODES + 1), "parts"),
    "set": (lambda: {1}, "a set"),
    "complex number": (lambda: 1j, "a complex"),
    "object": (object, "a object"),
    "huge view": (lambda: torch.zeros(1).expand(2**40), "MiB"),
    "huge in all": (lambda: [torch.zeros(2**24).expand(2, -1)] * 3, "in all"),
    "huge image": (
        lambda: np.broadcast_to(np.zeros(1, np.uint8), (2**20, 2**20)),
        "MiB",
    ),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("make", "says"), CANNOT_CROSS.values(), ids=CANNOT_CROSS)
def test_what_may_not_cross_gets_a_sentence(make: Any, says: str) -> None:
    with pytest.raises(CannotCrossError, match=says):
        pack({"value": make()})


def test_a_huge_view_is_refused_before_it_is_made() -> None:
    value = torch.zeros(1).expand(2**33)
    tracemalloc.start()
    with pytest.raises(CannotCrossError):
        pack({"value": value})
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


# What no honest peer sends

HOSTILE_HEADERS = {
    "nothing": b"",
    "no JSON": b"{",
    "not UTF-8": b'{"a": "\xff"}',
    "a list": b"[1]",
    "a number": b"7",
    "the same key twice": b'{"a": 1, "a": 2}',
    "the same key twice inside": b'{"a": {"t": "dict", "t": "list", "k": [], "v": []}}',
    "NaN": b'{"a": NaN}',
    "Infinity": b'{"a": -Infinity}',
    "1e999": b'{"a": 1e999}',
    "a long int": b'{"a": ' + b"9" * 5000 + b"}",
    "an int of 64 bits": b'{"a": 9223372036854775808}',
    "deep lists": b'{"a": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "rather deep lists": b'{"a": ' + b"[" * 40 + b"]" * 40 + b"}",
    "deep objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "many parts": b'{"a": [' + b"0," * 250_000 + b"0]}",
}


@pytest.mark.parametrize("header", HOSTILE_HEADERS.values(), ids=HOSTILE_HEADERS)
def test_a_bad_header_is_a_channel_error(header: bytes) -> None:
    with pytest.raises(ChannelError):
        unpack(header, b"")


HOSTILE_NODES: dict[str, Any] = {
    "no tag": {},
    "an unknown tag": {"t": "pickle", "v": "x"},
    "a tag that is a list": {"t": []},
    "a tuple without values": {"t": "tuple"},
    "a tuple of text": {"t": "tuple", "v": "abc"},
    "a dict with too few values": {"t": "dict", "k": ["a", "b"], "v": [1]},
    "a dict with a key twice": {"t": "dict", "k": ["a", "a"], "v": [1, 2]},
    "a dict with int keys": {"t": "dict", "k": [1], "v": [2]},
    "a float that is a word": {"t": "float", "v": "1.5"},
    "a float that is a list": {"t": "float", "v": []},
    "a tensor that is not there": {"t": "tensor", "i": "9", "d": "cpu"},
    "a tensor with a number for a name": {"t": "tensor", "i": 0, "d": "cpu"},
    "an unknown device": {"t": "device", "v": "xla"},
    "a device with a long number": {"t": "device", "v": "cuda:9999999999999"},
    "an unknown dtype": {"t": "dtype", "v": "complex64"},
    "a dtype that is a list": {"t": "dtype", "v": []},
    "a generator without a state": {"t": "generator", "device": "cpu", "seed": "1"},
    "a handle with a text for a number": {"t": "handle", "n": "1", "type": "x"},
    "a handle with a bool for a number": {"t": "handle", "n": True, "type": "x"},
    "a handle without a type": {"t": "handle", "n": 1},
    "a callback without a name": {"t": "callback", "n": 1},
    "a remote with methods that are a text": {
        "t": "remote",
        "n": 1,
        "type": "x",
        "attributes": [],
        "methods": "abc",
    },
    "an exception with short frames": {
        "t": "raised",
        "types": ["E"],
        "text": "",
        "at_call": False,
        "frames": [[1, "f"]],
    },
    "an exception with a text for a line": {
        "t": "raised",
        "types": ["E"],
        "text": "",
        "at_call": False,
        "frames": [["1", "f", "c"]],
    },
    "an exception of no type": {"t": "raised", "types": [1], "text": "", "frames": []},
}


@pytest.mark.parametrize("node", HOSTILE_NODES.values(), ids=HOSTILE_NODES)
def test_a_bad_value_is_a_channel_error(node: Any) -> None:
    with pytest.raises(ChannelError):
        unpack(*frame({"value": node}))


ONE = safetensors.torch.save({"0": torch.ones(2)})
HOSTILE_BODIES = {
    "rubbish": b"\xff" * 40,
    "too short": b"\x01",
    "a header longer than the body": struct.pack("<Q", 2**40) + b"{}",
    "offsets beyond the end": tensors_body(entry("F32", [1000], 0, 4000), b"\0" * 8),
    "offsets that run backwards": tensors_body(entry("F32", [2], 8, 0), b"\0" * 8),
    "negative offsets": tensors_body(entry("F32", [2], -8, 0), b"\0" * 8),
    "a shape that does not fit": tensors_body(entry("F32", [3], 0, 8), b"\0" * 8),
    "a shape whose product overflows": tensors_body(entry("F32", [2**62, 2**62], 0, 8), b"\0" * 8),
    "a negative shape": tensors_body(entry("F32", [-2], 0, 8), b"\0" * 8),
    "an unknown dtype": tensors_body(entry("X9", [2], 0, 8), b"\0" * 8),
    "eight bit floats": tensors_body(entry("F8_E4M3", [2], 0, 2), b"\0" * 2),
    "complex numbers": tensors_body(entry("C64", [1], 0, 8), b"\0" * 8),
    "bytes that belong to nothing": tensors_body(entry("F32", [1], 0, 4), b"\0" * 64),
    "the last byte missing": ONE[:-1],
}


@pytest.mark.parametrize("body", HOSTILE_BODIES.values(), ids=HOSTILE_BODIES)
def test_a_bad_body_is_a_channel_error(body: bytes) -> None:
    with pytest.raises(ChannelError):
        unpack(*frame(tensor_node(), body))


@pytest.mark.parametrize("device", ["cuda", "cuda:7", "mps", "cuda:99"])
def test_a_tensor_for_a_device_that_is_not_here_is_a_channel_error(device: str) -> None:
    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("there is such a device here")
    with pytest.raises(ChannelError):
        unpack(*frame(tensor_node(device=device), ONE))


@pytest.mark.parametrize("tag", ["image", "bytes", "generator"])
def test_a_float_tensor_where_bytes_belong_is_a_channel_error(tag: str) -> None:
    node = {"t": tag, "i": "0", "device": "cpu", "seed": "1"}
    with pytest.raises(ChannelError):
        unpack(*frame({"value": node}, ONE))


@pytest.mark.parametrize("seed", ["x", "", "9" * 60, "-" + "9" * 30, 7, None], ids=repr)
def test_a_generator_with_a_bad_seed_is_a_channel_error(seed: Any) -> None:
    state = torch.Generator().get_state()
    node = {"t": "generator", "i": "0", "device": "cpu", "seed": seed}
    with pytest.raises(ChannelError):
        unpack(*frame({"value": node}, safetensors.torch.save({"0": state})))


@pytest.mark.parametrize("state", [b"", b"\0" * 8, b"\xff" * 5056], ids=["none", "short", "ones"])
def test_a_generator_with_a_bad_state_is_a_channel_error(state: bytes) -> None:
    body = safetensors.torch.save({"0": torch.tensor(list(state), dtype=torch.uint8)})
    node = {"t": "generator", "i": "0", "device": "cpu", "seed": "1"}
    with pytest.raises(ChannelError):
        unpack(*frame({"value": node}, body))


def test_a_generator_whose_state_points_beyond_its_numbers_is_a_channel_error() -> None:
    """torch takes such a state and then reads memory that lies behind it."""
    state = bytearray(torch.Generator().manual_seed(1).get_state().numpy().tobytes())
    struct.pack_into("<i", state, 8, 624)  # how many numbers are left
    struct.pack_into("<Q", state, 16, 624)  # the next one, of 624
    body = safetensors.torch.save({"0": torch.tensor(list(state), dtype=torch.uint8)})
    node = {"t": "generator", "i": "0", "device": "cpu", "seed": "1"}
    with pytest.raises(ChannelError):
        unpack(*frame({"value": node}, body))


def test_one_tensor_named_many_times_does_not_multiply() -> None:
    """`pack` never names a tensor twice; a forger who does could fill the examiner's memory."""
    body = safetensors.torch.save({"0": torch.zeros(2**16)})
    tree = {"value": [{"t": "tensor", "i": "0", "d": "cpu"}] * 500}
    with pytest.raises(ChannelError):
        unpack(*frame(tree, body))


# Frames


def test_the_end_of_the_stream_is_told_from_a_broken_frame() -> None:
    with pytest.raises(ChannelClosedError):
        read_frame(io.BytesIO())


@pytest.mark.parametrize("kept", [1, 15, 16, 20, -1])
def test_a_frame_that_ends_early_is_a_channel_error(kept: int) -> None:
    with pytest.raises(ChannelError) as caught:
        read_frame(io.BytesIO(pack({"value": torch.ones(3)})[:kept]))
    assert not isinstance(caught.value, ChannelClosedError)


@pytest.mark.parametrize(
    ("header", "body"), [(wire.MAX_HEADER + 1, 0), (2**32 - 1, 0), (2, 2**63), (2, 2**29)]
)
def test_a_frame_that_promises_too_much_is_refused_at_once(header: int, body: int) -> None:
    stream = io.BytesIO(wire.LENGTHS.pack(wire.MAGIC, header, body) + b"{}" + b"\0" * 64)
    with pytest.raises(ChannelError, match="promises"):
        read_frame(stream)
    assert stream.tell() == wire.LENGTHS.size


def test_memory_grows_with_what_arrives_not_with_what_is_promised() -> None:
    stream = io.BytesIO(wire.LENGTHS.pack(wire.MAGIC, 2, wire.MAX_BODY) + b"{}" + b"\0" * 100)
    tracemalloc.start()
    with pytest.raises(ChannelError, match="ended after 100"):
        read_frame(stream)
    assert tracemalloc.get_traced_memory()[1] < 4 * 2**20
    tracemalloc.stop()


def read_hostile(data: bytes) -> None:
    """Read a frame that may be anything: a message comes out, or a ChannelError."""
    try:
        message = unpack(*read_frame(io.BytesIO(data)))
    except ChannelError:
        return
    assert isinstance(message, dict)


@given(st.binary(max_size=200), st.booleans())
@settings(max_examples=200, deadline=None)
def test_any_bytes_give_a_message_or_a_channel_error(data: bytes, framed: bool) -> None:
    if framed:
        cut = len(data) // 2
        data = wire.LENGTHS.pack(wire.MAGIC, cut, len(data) - cut) + data
    read_hostile(data)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["tensor", "0", "cpu", "generator", "raised", "dict", "cuda", "-"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "t",
                    "i",
                    "d",
                    "v",
                    "k",
                    "n",
                    "type",
                    "name",
                    "types",
                    "text",
                    "frames",
                    "device",
                    "seed",
                ]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=20,
)


@given(json_values)
@settings(max_examples=300, deadline=None)
def test_any_tree_gives_a_message_or_a_channel_error(tree: Any) -> None:
    header, body = frame({"value": tree}, ONE)
    read_hostile(wire.LENGTHS.pack(wire.MAGIC, len(header), len(body)) + header + body)


VALID = pack(
    {
        "kind": "answer",
        "value": [
            {"x": torch.arange(4.0), "n": -1.5, "b": b"abc"},
            (torch.Generator().manual_seed(1), np.zeros((2, 2, 3), np.uint8), torch.float16),
            *RECORDS,
        ],
    }
)


@given(st.data())
@settings(max_examples=400, deadline=None)
def test_any_change_to_a_frame_gives_a_message_or_a_channel_error(data: st.DataObject) -> None:
    mutated = bytearray(VALID)
    header_end = wire.LENGTHS.size + wire.LENGTHS.unpack(VALID[: wire.LENGTHS.size])[1]
    for _ in range(data.draw(st.integers(1, 6))):
        # Mostly in the header and in the beginning of the body, where structure is.
        place = data.draw(st.integers(0, min(header_end + 700, len(mutated) - 1)))
        mutated[place] = data.draw(st.integers(0, 255))
    read_hostile(bytes(mutated[: data.draw(st.sampled_from([len(mutated), place]))]))
