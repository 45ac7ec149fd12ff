"""What the checks of lab 10 ask: attention, decoders, offload hooks and measured networks."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from accelerate import cpu_offload, cpu_offload_with_hook
from diffusers import AutoencoderKL, UNet2DConditionModel
from diffusers.models.attention_processor import Attention, AttnProcessor, SlicedAttnProcessor
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from infralens import shapes
from infralens.suites.networks import frozen, plain_convolutions, seeded


class Lent:
    """A function of one argument, lent under any name for it. `calls` keeps what it was given."""

    def __init__(self, name: str, answer: Callable[[Any], Any]) -> None:
        self.__name__, self.answer = name, answer
        self.calls: list[Any] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = [*args, *kwargs.values()]
        if len(given) != 1:
            raise TypeError(f"{self.__name__} takes one argument, not {len(given)}")
        self.calls.append(given[0])
        with torch.no_grad():
            return self.answer(given[0])


# Attention


def attention(processor: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """diffusers' Attention, (B, heads, N, d), with projections that pass q, k and v through."""
    _, heads, _, size = q.shape
    inner = heads * size
    module = Attention(
        query_dim=inner,
        cross_attention_dim=2 * inner,
        heads=heads,
        dim_head=size,
        processor=processor,
    )
    eye, zero = torch.eye(inner), torch.zeros(inner, inner)
    module.load_state_dict(
        {
            "to_q.weight": eye,
            "to_k.weight": torch.cat([eye, zero], 1),
            "to_v.weight": torch.cat([zero, eye], 1),
            "to_out.0.weight": eye,
            "to_out.0.bias": torch.zeros(inner),
        }
    )
    side_by_side = [x.transpose(1, 2).flatten(2) for x in (q, k, v)]
    module.eval().to(q.device)
    with torch.no_grad():
        out: Tensor = module(side_by_side[0], torch.cat(side_by_side[1:], -1))
    return out.reshape(*out.shape[:2], heads, size).transpose(1, 2)


def scores_of(q: Tensor, k: Tensor) -> Tensor:
    """q·kᵀ / √d in the dtype of the inputs."""
    return torch.einsum("bhnd,bhmd->bhnm", q, k) / math.sqrt(q.shape[-1])


def attended(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """(out, lse) in the dtype of the inputs."""
    scores = scores_of(q, k)
    return scores.softmax(-1) @ v, scores.logsumexp(-1)


def attended_in_turn(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """out alone, one picture and head after the other: all maps of float64 take much memory."""
    out = torch.empty_like(q)
    for i in range(q.shape[0]):
        for j in range(q.shape[1]):
            one = (slice(i, i + 1), slice(j, j + 1))
            out[one] = scores_of(q[one], k[one]).softmax(-1) @ v[one]
    return out


# Decoders


@functools.lru_cache
def autoencoder(name: str, device: str = "cpu") -> Any:
    """The kit's own trained VAE ("shipped", factor 4), or a small random one ("tiny": factor 2)."""
    if name == "shipped":
        module = AutoencoderKL.from_pretrained(
            shapes.FOLDER, subfolder="vae", local_files_only=True
        )
        return frozen(module, device)
    channels = {
        "tiny": (8, 16),
        "one level": (8,),
        "three levels": (8, 12, 20),
        "four levels": (4, 8, 8, 12),
    }[name]
    with seeded(10):
        module = AutoencoderKL(
            block_out_channels=channels,
            down_block_types=("DownEncoderBlock2D",) * len(channels),
            up_block_types=("UpDecoderBlock2D",) * len(channels),
            latent_channels=6 if name == "tiny" else 4,
            norm_num_groups=4,
            mid_block_add_attention=False,
        )
    return frozen(module, device)


@functools.lru_cache
def exact_autoencoder(name: str, device: str = "cpu") -> Any:
    """The same one in float64."""
    return copy.deepcopy(autoencoder(name, device)).double()


def upscale_of(vae: Any) -> int:
    return int(2 ** (len(vae.config.block_out_channels) - 1))


@functools.lru_cache
def _pictures(decoder: Any) -> dict[Any, Tensor]:
    """What this decoder has given lately, by what it was given."""
    return {}


MOST_PICTURES = 256  # of some kilobytes each, for one decoder


@contextmanager
def _remembering(decoder: Any) -> Iterator[None]:
    """Let the decoder give again what it gave for the same numbers.

    Each tile is asked for by the learner's code and by the library, and again by each mistake that
    is looked for.
    """
    given = _pictures(decoder)

    def forward(sample: Tensor, *more: Any) -> Tensor:
        numbers = sample.detach().cpu().contiguous().numpy().tobytes()
        key = (tuple(sample.shape), sample.dtype, sample.device, numbers)
        if more or key not in given:
            while len(given) >= MOST_PICTURES:
                del given[next(iter(given))]
            with plain_convolutions():
                given[key] = type(decoder).forward(decoder, sample, *more)
        return given[key].clone()  # the caller may write into it

    decoder.forward = forward
    try:
        yield
    finally:
        del decoder.forward


def decoded(vae: Any, latents: Tensor) -> Tensor:
    """AutoencoderKL.decode as it is set up at the moment."""
    with torch.no_grad(), _remembering(vae.decoder):
        picture: Tensor = vae.decode(latents).sample
    return picture


def tiled_by_library(
    vae: Any, latents: Tensor, tile: int, overlap: int
) -> tuple[Tensor, list[Any]]:
    """AutoencoderKL with tiling enabled: the picture, and what its decoder was given."""
    given: list[Any] = []
    vae.tile_latent_min_size, vae.tile_sample_min_size = tile, tile * upscale_of(vae)
    vae.tile_overlap_factor = overlap / tile
    hook = vae.decoder.register_forward_pre_hook(lambda _, args: given.append(args[0]))
    vae.enable_tiling()
    try:
        return decoded(vae, latents), given
    finally:
        vae.disable_tiling()
        hook.remove()


def sliced_by_library(vae: Any, latents: Tensor) -> Tensor:
    """AutoencoderKL with slicing enabled."""
    vae.enable_slicing()
    try:
        return decoded(vae, latents)
    finally:
        vae.disable_slicing()


def truncates(tile: int, overlap: int) -> bool:
    """Whether AutoencoderKL, which keeps the overlap as a share of the tile, loses a pixel."""
    share = overlap / tile
    return int(tile * (1 - share)) != tile - overlap or any(
        int(tile * upscale * share) != overlap * upscale for upscale in (1, 2, 4, 8)
    )


def tiled(vae: Any, latents: Tensor, tile: int, overlap: int) -> Tensor:
    """Tiled decoding as the lab describes it, pixel row by pixel row."""
    height, width = latents.shape[2:]
    upscale = upscale_of(vae)
    stride, kept = tile - overlap, (tile - overlap) * upscale
    rows = [
        [decoded(vae, latents[:, :, y : y + tile, x : x + tile]) for x in range(0, width, stride)]
        for y in range(0, height, stride)
    ]
    for i, row in enumerate(rows):
        for j, piece in enumerate(row):
            if i:
                _blend(rows[i - 1][j], piece, overlap * upscale)
            if j:
                _blend(row[j - 1].mT, piece.mT, overlap * upscale)
    return torch.cat([torch.cat([p[..., :kept, :kept] for p in row], -1) for row in rows], -2)


def _blend(above: Tensor, piece: Tensor, most: int) -> None:
    n = min(above.shape[-2], piece.shape[-2], most)
    for y in range(n):
        own = y / n
        piece[..., y, :] = (1 - own) * above[..., y - n, :] + own * piece[..., y, :]


# Offload


class Stub(torch.nn.Module):
    """A component of so many bytes whose moves are counted: no accelerator is needed."""

    def __init__(self, size: int, bus: Bus) -> None:
        super().__init__()
        self.size, self.bus = size, bus
        self.device = torch.device("cpu")

    def parameters(self, recurse: bool = True) -> Iterator[Any]:
        return iter([self])  # accelerate asks the first one where it is

    def to(self, device: Any) -> Any:  # type: ignore[override]  # devices only
        device = torch.device(device)
        if device != self.device:
            self.device = device
            self.bus.moved(self)
        return self

    def forward(self) -> None:
        """Nothing: only where the component is when it is called matters."""


class Bus:
    """Counts what is copied between host and device, and what is on the device at once."""

    def __init__(self) -> None:
        self.here = self.peak = self.to_device = self.to_host = 0

    def moved(self, stub: Stub) -> None:
        if stub.device.type == "cpu":
            self.here -= stub.size
            self.to_host += stub.size
        else:
            self.here += stub.size
            self.to_device += stub.size
            self.peak = max(self.peak, self.here)

    def told(self, capacity: int) -> dict[str, Any]:
        return {
            "peak": self.peak,
            "to_device": self.to_device,
            "to_host": self.to_host,
            "fits": self.peak <= capacity,
        }


def model_offload(sizes: dict[str, list[int]], chain: str, calls: Sequence[str]) -> Bus:
    """The hooks that DiffusionPipeline.enable_model_cpu_offload sets, and what they do."""
    bus, device, hook = Bus(), torch.device("cuda:0"), None
    stubs = {name: Stub(sum(leaves), bus) for name, leaves in sizes.items()}
    left = dict(stubs)
    for name in chain.split("->"):
        if name in left:
            _, hook = cpu_offload_with_hook(left.pop(name), device, prev_module_hook=hook)
    for stub in left.values():
        cpu_offload_with_hook(stub, device)
    for name in calls:
        stubs[name]()
    return bus


class Leaf(torch.nn.Module):
    """So many bytes of weights. When it is run it tells how many bytes are loaded everywhere."""

    def __init__(self, size: int, bus: Bus, loaded: Callable[[], int]) -> None:
        super().__init__()
        numbers = torch.zeros(size, dtype=torch.uint8)
        self.weight = torch.nn.Parameter(numbers, requires_grad=False)
        self.bus, self.loaded = bus, loaded

    def forward(self) -> None:
        self.bus.to_device += self.weight.numel()
        self.bus.peak = max(self.bus.peak, self.loaded())


class Whole(torch.nn.Module):
    """A component: its leaves, run one after the other."""

    def __init__(self, leaves: list[Leaf]) -> None:
        super().__init__()
        self.leaves = torch.nn.ModuleList(leaves)

    def forward(self) -> None:
        for leaf in self.leaves:
            leaf()


def sequential_offload(sizes: dict[str, list[int]], calls: Sequence[str]) -> Bus:
    """accelerate's cpu_offload, with the CPU as the device: weights that are not here are meta."""
    bus, modules = Bus(), dict[str, Whole]()

    def loaded() -> int:
        everything = (p for module in modules.values() for p in module.parameters())
        return sum(p.numel() for p in everything if p.device.type != "meta")

    for name, leaves in sizes.items():
        modules[name] = Whole([Leaf(size, bus, loaded) for size in leaves])
    for module in modules.values():
        cpu_offload(module, torch.device("cpu"))
    for name in calls:
        modules[name]()
    return bus


# Measured networks


class Made(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's own is untyped
    """The tensors that are made meanwhile: which function made each, and of how many elements."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own is untyped
        self.tensors: list[tuple[str, int]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        leaves = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        self.tensors += [(str(func), leaf.numel()) for leaf in leaves]
        return result

    def by(self, name: str) -> list[int]:
        """The sizes of those that functions with this in their name made."""
        return [size for function, size in self.tensors if name in function]


@functools.lru_cache
def unet(name: str) -> Any:
    """The kit's UNet, with attention at the size of the latents, or one with it at half of that."""
    if name == "shipped":
        module = UNet2DConditionModel.from_pretrained(
            shapes.FOLDER, subfolder="unet", local_files_only=True
        )
        return frozen(module)
    return frozen(new_unet())


def new_unet() -> Any:
    """One as it comes, with trainable weights."""
    with seeded(11):
        return UNet2DConditionModel(
            sample_size=8,
            block_out_channels=(8, 16),
            layers_per_block=1,
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
            cross_attention_dim=24,
            attention_head_dim=4,  # the number of heads
            norm_num_groups=4,
        )


@functools.lru_cache(maxsize=64)
def largest_scores(name: str, rows: int, height: int, width: int, slice_size: int | None) -> int:
    """Elements of the largest scores in the UNet, for latents of this size."""
    network = unet(name)
    network.set_attn_processor(
        AttnProcessor() if slice_size is None else SlicedAttnProcessor(slice_size)
    )
    embeds = torch.zeros(rows, 5, network.config.cross_attention_dim)
    with torch.no_grad(), Made() as made:
        network(torch.zeros(rows, 4, height, width), torch.tensor(50), embeds)
    return int(max(made.by("softmax")))


@functools.lru_cache(maxsize=64)
def largest_in_decoder(name: str, batch: int, height: int, width: int) -> int:
    """Elements of the largest tensor in AutoencoderKL.decode, for latents of this size."""
    vae = autoencoder(name)
    with torch.no_grad(), Made() as made:
        vae.decode(torch.zeros(batch, vae.config.latent_channels, height, width))
    return int(max(made.by("")))


def parameter_count(module: Any) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
