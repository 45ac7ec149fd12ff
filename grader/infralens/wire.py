"""What may cross between examiner and candidate, and its bytes.

A frame is eight bytes of lengths, a JSON header, and a safetensors body. The header holds a tree of
values; tensors, images and bytes stand in the body and are named from the tree by their number.
Nothing here runs code that arrives: no pickle, no imports by name. Every limit is checked before
memory is spent on what a frame promises.

May cross: None, bool, int, float, str, bytes, list, tuple, dict with str keys, torch dtype and
device, plain dense tensors, uint8 arrays, torch.Generator, and the records below (Handle, Callback,
Remote, Namespace, Raised).
"""

from __future__ import annotations

import io
import json
import math
import mmap
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor

LENGTHS = struct.Struct(">4sIQ")
MAGIC = b"ILw1"
MAX_HEADER = 8 * 2**20
MAX_BODY = 256 * 2**20
MAX_DEPTH = 32
MAX_NODES = 200_000
MAX_TEXT = 1_000_000
MAX_INT_BITS = 64
MAX_NAME = 200  # of a type or a function
MAX_LINE = 500
MAX_FRAMES = 20
MAX_RAISED = 10_000  # an exception's text
SPARE_BYTES = 2**16
DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
    )
}
DEVICE = re.compile(r"(cpu|cuda|mps)(:\d{1,2})?")


class CannotCrossError(TypeError):
    """A value that has no way across; the text is one sentence for the person who sent it."""


class TooLargeError(CannotCrossError):
    """A value of a kind that crosses, and too much of it."""


class ChannelError(Exception):
    """Bytes that no honest peer sends; the text says what is wrong with them."""


class ChannelClosedError(ChannelError):
    """The peer has gone."""


@dataclass(frozen=True)
class Handle:
    """An object that stays in the candidate. Its number is all that the examiner holds."""

    number: int
    type_name: str


@dataclass(frozen=True)
class Callback:
    """A function that stays in the examiner and is called from the candidate."""

    number: int
    name: str


@dataclass(frozen=True)
class Remote:
    """An object that stays in the examiner; these attributes and methods answer from there."""

    number: int
    type_name: str
    attributes: tuple[str, ...]
    methods: tuple[str, ...]


@dataclass(frozen=True)
class Namespace:
    """Named values that are read as attributes, such as the output of `scheduler.step`."""

    fields: Mapping[str, Any]


@dataclass(frozen=True)
class Raised:
    """An exception: the names of its type and that type's bases, its text, and where it came from.

    `frames` are the lines of the learner's own file that it crossed (line, function, code);
    `at_call` says that the call could not be made: nothing to call is there, or it does not fit.
    """

    type_names: tuple[str, ...]
    text: str
    frames: tuple[tuple[int, str, str], ...] = ()
    at_call: bool = False

    @property
    def type_name(self) -> str:
        return self.type_names[0]


RECORDS = (Handle, Callback, Remote, Namespace, Raised)
Records = Handle | Callback | Remote | Namespace | Raised
Message = dict[str, Any]


def whole_in_place_of_its_tensor(fields: Sequence[str]) -> str:
    """What is said when a Namespace, such as a step's result, is passed on as it is."""
    first = next(iter(fields), "")
    return (
        f"an argument is an object that holds {' and '.join(fields)}, where a tensor belongs; "
        f"take .{first} of it"
    )


class _Packer:
    """Turns one message into a tree and its numbered tensors."""

    def __init__(self, lend: Callable[[Any], Records | None]) -> None:
        self.lend = lend
        self.tensors: dict[str, Tensor] = {}
        self.nodes = 0
        self.size = 0

    def tree(self, value: Any, depth: int = 0) -> Any:
        self.nodes += 1
        if depth > MAX_DEPTH:
            raise TooLargeError(
                f"a value nested more than {MAX_DEPTH} deep (or one that contains itself)"
            )
        if self.nodes > MAX_NODES:
            raise TooLargeError(f"a value of more than {MAX_NODES:,} parts")
        plain = self._plain(value)
        if plain is not _NOT_PLAIN:
            return plain
        if isinstance(value, RECORDS):
            return self._record(value, depth)
        if isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, list):
            return [self.tree(item, depth + 1) for item in list.__iter__(value)]
        if isinstance(value, tuple):
            items = [self.tree(item, depth + 1) for item in tuple.__iter__(value)]
            return {"t": "tuple", "v": items}
        if isinstance(value, dict):
            return self._dict("dict", value, depth)
        if isinstance(value, bytes):
            return {"t": "bytes", "i": self._store(_as_tensor(value))}
        if isinstance(value, torch.dtype):
            return {"t": "dtype", "v": str(value).removeprefix("torch.")}
        if isinstance(value, torch.device):
            return {"t": "device", "v": str(value)}
        if isinstance(value, torch.Generator):
            state = value.get_state()
            return {
                "t": "generator",
                "device": str(value.device),
                "seed": str(value.initial_seed()),
                "i": self._store(state),
            }
        if isinstance(value, np.ndarray):
            return self._image(value)
        lent = self.lend(value)
        if lent is not None:
            return self._record(lent, depth)
        raise CannotCrossError(f"a {type(value).__name__}")

    def _plain(self, value: Any) -> Any:
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or value is True or value is False:
            return value
        if isinstance(value, int):
            number = int.__int__(value)
            if number.bit_length() >= MAX_INT_BITS:
                raise TooLargeError(f"an int of {number.bit_length()} bits")
            return number
        if isinstance(value, float):
            number_ = float.__float__(value)
            return number_ if math.isfinite(number_) else {"t": "float", "v": repr(number_)}
        if isinstance(value, str):
            text = str.__str__(value)
            if len(text) > MAX_TEXT:
                raise TooLargeError(f"a text of {len(text):,} characters")
            return text
        return _NOT_PLAIN

    def _dict(self, tag: str, value: Mapping[Any, Any], depth: int) -> Any:
        items = list(dict.items(value)) if isinstance(value, dict) else list(value.items())
        for key, _ in items:
            if type(key) is not str:
                raise CannotCrossError(f"a dict with a key that is a {type(key).__name__}")
        return {
            "t": tag,
            "k": [key for key, _ in items],
            "v": [self.tree(item, depth + 1) for _, item in items],
        }

    def _record(self, record: Records, depth: int) -> Any:
        if isinstance(record, Handle):
            return {"t": "handle", "n": record.number, "type": record.type_name[:MAX_NAME]}
        if isinstance(record, Callback):
            return {"t": "callback", "n": record.number, "name": record.name}
        if isinstance(record, Remote):
            return {
                "t": "remote",
                "n": record.number,
                "type": record.type_name,
                "attributes": list(record.attributes),
                "methods": list(record.methods),
            }
        if isinstance(record, Namespace):
            return self._dict("namespace", record.fields, depth)
        return {
            "t": "raised",
            "types": [name[:MAX_NAME] for name in record.type_names[:MAX_FRAMES]],
            "text": record.text[:MAX_RAISED],
            "at_call": record.at_call,
            "frames": [
                [line, name[:MAX_NAME], code[:MAX_LINE]]
                for line, name, code in record.frames[-MAX_FRAMES:]
            ],
        }

    def _tensor(self, value: Tensor) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            name = type(value).__name__
            if value.is_nested:
                raise CannotCrossError(f"a nested {name}")
            if value.layout is not torch.strided or value.is_quantized:
                raise CannotCrossError(f"a {name} that is not dense (layout {value.layout})")
            if value.device.type == "meta":
                raise CannotCrossError(f"a {name} on the meta device, which holds no numbers")
            dtype = str(value.dtype).removeprefix("torch.")
            if dtype not in DTYPES:
                raise CannotCrossError(f"a {name} of dtype {dtype}")
            if value.numel() * value.element_size() > MAX_BODY:
                raise TooLargeError(
                    f"a tensor of shape {tuple(value.shape)}, more than {MAX_BODY >> 20} MiB"
                )
            device = str(value.device)
            plain = value.detach().cpu().resolve_conj().resolve_neg()
            if type(plain) is not Tensor:
                plain = plain.as_subclass(Tensor)
            return {"t": "tensor", "i": self._store(plain.contiguous().clone()), "d": device}

    def _image(self, value: np.ndarray[Any, Any]) -> Any:
        array = np.asarray(value)
        if array.dtype != np.uint8:
            raise CannotCrossError(f"a numpy array of {array.dtype} instead of a torch tensor")
        if array.nbytes > MAX_BODY:
            raise TooLargeError(f"an array of shape {array.shape}, over {MAX_BODY >> 20} MiB")
        return {"t": "image", "i": self._store(torch.from_numpy(np.array(array, order="C")))}

    def _store(self, tensor: Tensor) -> str:
        self.size += tensor.numel() * tensor.element_size()
        if self.size > MAX_BODY:
            raise TooLargeError(f"values of more than {MAX_BODY >> 20} MiB in all")
        number = str(len(self.tensors))
        self.tensors[number] = tensor
        return number


_NOT_PLAIN = object()


def _as_tensor(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0).byte()


def pack(message: Message, lend: Callable[[Any], Records | None] = lambda value: None) -> bytes:
    """The frame of a message.

    `lend` turns an object that has no value form into a record that stands for it, or gives None.
    Raises CannotCrossError, whose text fits after the word "returned".
    """
    packer = _Packer(lend)
    tree = {key: packer.tree(value) for key, value in message.items()}
    header = json.dumps(tree, allow_nan=False, separators=(",", ":")).encode("ascii")
    if len(header) > MAX_HEADER:
        raise TooLargeError(f"a value that takes {len(header) >> 20} MiB to write down")
    body = _body(packer.tensors, packer.size) if packer.tensors else b""
    return LENGTHS.pack(MAGIC, len(header), len(body)) + header + body


def read_frame(stream: BinaryIO) -> tuple[bytes, bytes]:
    """Header and body of the next frame. ChannelClosedError at its end, ChannelError if bad."""
    first = stream.read(LENGTHS.size)
    if not first:
        raise ChannelClosedError("the channel was closed")
    if len(first) < LENGTHS.size:
        raise ChannelError("a frame ended inside its first bytes")
    magic, header_size, body_size = LENGTHS.unpack(first)
    if magic != MAGIC:
        raise ChannelError("bytes that begin no frame")
    if header_size > MAX_HEADER or body_size > MAX_BODY + MAX_HEADER:
        raise ChannelError(f"a frame that promises {header_size + body_size:,} bytes")
    return _read_exactly(stream, header_size), _read_exactly(stream, body_size)


def _read_exactly(stream: BinaryIO, size: int) -> bytes:
    """`size` bytes, taken in pieces: memory grows with what arrives, not with what is promised."""
    buffer = io.BytesIO()
    while buffer.tell() < size:
        piece = stream.read(min(size - buffer.tell(), 2**20))
        if not piece:
            raise ChannelError(f"a frame that ended after {buffer.tell():,} of {size:,} bytes")
        buffer.write(piece)
    return buffer.getvalue()


def unpack(
    header: bytes, body: bytes, resolve: Callable[[Records], Any] = lambda record: record
) -> Message:
    """The message of a frame. Anything that `pack` does not write raises ChannelError.

    `resolve` turns each record (Handle, Callback, …) into the object that stands for it here.
    """
    try:
        tree = json.loads(
            header, object_pairs_hook=_without_duplicates, parse_constant=_no_constant
        )
        tensors = _tensors(body)
        if not isinstance(tree, dict):
            raise ChannelError("a header that is no object")
        unpacker = _Unpacker(tensors, resolve)
        return {key: unpacker.value(node) for key, node in tree.items()}
    except ChannelError:
        raise
    except (
        ValueError,
        TypeError,
        KeyError,
        IndexError,
        AttributeError,
        RuntimeError,  # includes RecursionError
        AssertionError,  # torch says so where a device is not compiled in
        MemoryError,
        OverflowError,
        safetensors.SafetensorError,
    ) as error:
        raise ChannelError(f"a frame that cannot be read: {type(error).__name__}") from error


def _body(tensors: dict[str, Tensor], size: int) -> bytes:
    _require_memory(2 * size)
    body: bytes = safetensors.torch.save(tensors)
    return body


def _tensors(body: bytes) -> dict[str, Tensor]:
    if not body:
        return {}
    _require_memory(len(body))
    tensors: dict[str, Tensor] = safetensors.torch.load(body)
    return tensors


def _require_memory(size: int) -> None:
    """MemoryError where the copies of safetensors do not fit: its Rust would end the process."""
    try:
        mmap.mmap(-1, size + SPARE_BYTES).close()
    except OSError:
        raise MemoryError("no memory is left for what crosses") from None


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ChannelError("a header with the same key twice")
    return result


def _no_constant(name: str) -> Any:
    raise ChannelError(f"a header with {name} in it")


class _Unpacker:
    """Turns a tree back into values, believing nothing about it."""

    def __init__(self, tensors: dict[str, Tensor], resolve: Callable[[Records], Any]) -> None:
        self.tensors = tensors
        self.resolve = resolve
        self.nodes = 0

    def value(self, node: Any, depth: int = 0) -> Any:
        self.nodes += 1
        if depth > MAX_DEPTH or self.nodes > MAX_NODES:
            raise ChannelError("a value nested too deep or of too many parts")
        if node is None or isinstance(node, bool | str):
            return node
        if isinstance(node, int):
            if node.bit_length() >= MAX_INT_BITS:
                raise ChannelError("an int of too many bits")
            return node
        if isinstance(node, float):
            if not math.isfinite(node):  # json reads 1e999 as infinity
                raise ChannelError("a number beyond the range of a float")
            return node
        if isinstance(node, list):
            return [self.value(item, depth + 1) for item in node]
        return self._tagged(node, depth)

    def _tagged(self, node: dict[str, Any], depth: int) -> Any:
        tag = node["t"]
        if tag == "tuple":
            return tuple(self.value(item, depth + 1) for item in _list(node["v"]))
        if tag in ("dict", "namespace"):
            keys = [_text(key) for key in _list(node["k"])]
            values = [self.value(item, depth + 1) for item in _list(node["v"])]
            if len(keys) != len(values) or len(set(keys)) != len(keys):
                raise ChannelError("a dict whose keys and values do not pair")
            pairs = dict(zip(keys, values, strict=True))
            return pairs if tag == "dict" else self.resolve(Namespace(pairs))
        if tag == "float":
            return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[node["v"]]
        if tag == "tensor":
            return self._stored(node).to(_device(node["d"]))
        if tag == "image":
            return self._stored(node, torch.uint8).numpy()
        if tag == "bytes":
            return self._stored(node, torch.uint8).numpy().tobytes()
        if tag == "dtype":
            return DTYPES[node["v"]]
        if tag == "device":
            return _device(node["v"])
        if tag == "generator":
            generator = torch.Generator(_device(node["device"]))
            generator.manual_seed(int(_text(node["seed"])[:40]))
            generator.set_state(_sane_state(self._stored(node, torch.uint8), generator))
            return generator
        if tag == "handle":
            return self.resolve(Handle(_int(node["n"]), _text(node["type"])[:MAX_NAME]))
        if tag == "callback":
            return self.resolve(Callback(_int(node["n"]), _text(node["name"])))
        if tag == "remote":
            attributes = tuple(_text(item) for item in _list(node["attributes"]))
            methods = tuple(_text(item) for item in _list(node["methods"]))
            number, type_name = _int(node["n"]), _text(node["type"])
            return self.resolve(Remote(number, type_name, attributes, methods))
        if tag == "raised":
            frames = tuple(
                (_int(line), _text(name)[:MAX_NAME], _text(code)[:MAX_LINE])
                for line, name, code in _list(node["frames"])[-MAX_FRAMES:]
            )
            names = _list(node["types"])[:MAX_FRAMES] or ["Exception"]
            types = tuple(_text(name)[:MAX_NAME] for name in names)
            text = _text(node["text"])[:MAX_RAISED]
            return self.resolve(Raised(types, text, frames, node["at_call"] is True))
        raise ChannelError("a value of unknown kind")

    def _stored(self, node: dict[str, Any], dtype: torch.dtype | None = None) -> Tensor:
        # Taken out: a tensor named often in a small header would be copied as often.
        # Cloned: safetensors memory is aligned to 8 bytes only, and results then differ by a bit.
        tensor = self.tensors.pop(_text(node["i"])).clone()
        if tensor.dtype not in DTYPES.values():
            raise ChannelError(f"a tensor of dtype {tensor.dtype}")
        if dtype is not None and tensor.dtype is not dtype:
            raise ChannelError(f"{tensor.dtype} where {dtype} belongs")
        return tensor


def _sane_state(state: Tensor, generator: torch.Generator) -> Tensor:
    """A generator's state, checked where torch does not: its place in the table of 624 numbers."""
    if generator.device.type == "cpu":
        if state.shape != generator.get_state().shape:
            raise ChannelError("a generator's state of another size")
        data = state.numpy().tobytes()
        left, following = (
            struct.unpack_from("<i", data, 8)[0],
            struct.unpack_from("<Q", data, 16)[0],
        )
        if not (1 <= left <= 624 and left + following <= 625):
            raise ChannelError("a generator's state that points outside its table")
    return state


def _device(name: Any) -> torch.device:
    if not DEVICE.fullmatch(_text(name)):
        raise ChannelError("a device of unknown name")
    return torch.device(name)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ChannelError("something else where a text belongs")
    return value


def _int(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value.bit_length() >= MAX_INT_BITS:
        raise ChannelError("something else where a whole number belongs")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ChannelError("something else where a list belongs")
    return value
