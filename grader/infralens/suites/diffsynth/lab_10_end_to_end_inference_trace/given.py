"""What lives beside the submission: pipelines to be traced, and a look at what a trace left behind.

The suite hands this file's text over and calls its functions; the reference imports them. It holds
no answers.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import json
import tempfile
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import diffusers
import torch
from diffusers import (
    AutoencoderKL,
    AutoencoderKLWan,
    DiffusionPipeline,
    EulerDiscreteScheduler,
    FlowMatchEulerDiscreteScheduler,
    FluxPipeline,
    FluxTransformer2DModel,
    ModelMixin,
    StableDiffusionPipeline,
    UNet2DConditionModel,
    WanPipeline,
    WanTransformer3DModel,
)
from diffusers.pipelines.pipeline_utils import ImagePipelineOutput
from diffusers.pipelines.wan import pipeline_wan
from diffusers.utils import logging as diffusers_logging
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor, nn
from transformers import (
    CLIPTextModel,
    CLIPTokenizer,
    PreTrainedTokenizerFast,
    T5Config,
    T5EncoderModel,
    UMT5Config,
    UMT5EncoderModel,
)
from transformers.utils import logging as transformers_logging

for logging in (diffusers_logging, transformers_logging):
    logging.set_verbosity_error()  # what the libraries say is not what the learner's code prints
    logging.disable_progress_bar()
if not hasattr(pipeline_wan, "ftfy"):  # which releases before 0.37 call without having it
    pipeline_wan.ftfy = SimpleNamespace(fix_text=str)

KINDS: dict[str, Any] = {
    "vae": AutoencoderKL,
    "unet": UNet2DConditionModel,
    "text_encoder": CLIPTextModel,
    "tokenizer": CLIPTokenizer,
}
SCHEDULERS = (
    "DDIMScheduler",
    "EulerDiscreteScheduler",
    "EulerAncestralDiscreteScheduler",
    "HeunDiscreteScheduler",
    "PNDMScheduler",
)
SPECIAL = ("<pad>", "</s>", "<unk>")  # of the second tokenizer
BLOCKS = 2  # of the small VAE: it shrinks pictures by 2
loaded: dict[Any, Any] = {}  # one of each kind; pipelines get copies


class PowerCutError(RuntimeError):
    """What stops a run in the middle."""


class MeltdownError(ValueError):
    """What else stops a run in the middle."""


class HaltError(BaseException):
    """What stops a run as Ctrl-C does: no Exception, so nobody takes it for a mistake."""


BREAKS = {"encode": PowerCutError, "denoise": MeltdownError, "step": HaltError}
BREAKS["decode"] = MeltdownError


# Pipelines


def parts(files: dict[str, bytes], *names: str) -> dict[str, Any]:
    """Copies of components in a folder with these files, as nobody has touched them."""
    for name in names:
        if name not in loaded:
            loaded[name] = from_files(files, name)
    return {name: copied(loaded[name]) for name in names}


def copied(part: Any) -> Any:
    """A copy for one pipeline: of a network, its modules with the same numbers."""
    return twin(part, {}) if isinstance(part, nn.Module) else copy.deepcopy(part)


def twin(module: Any, known: dict[int, Any]) -> Any:
    """The module again, with parameters, hooks and attributes of its own; numbers are shared."""
    if id(module) not in known:
        new = known[id(module)] = object.__new__(type(module))
        own = vars(module).copy()
        for name, value in own.items():
            if type(value) in (dict, OrderedDict, list, set):
                own[name] = value.copy()
        vars(new).update(own)
        for name, parameter in module._parameters.items():
            if parameter is not None:
                new._parameters[name] = nn.Parameter(parameter.data, requires_grad=False)
        for name, child in module._modules.items():
            new._modules[name] = None if child is None else twin(child, known)
    return known[id(module)]


def from_files(files: dict[str, bytes], name: str) -> Any:
    """A component loaded from its folder; networks in float32."""
    with tempfile.TemporaryDirectory(prefix="infralens-model-") as place:
        for path in (path for path in files if path.startswith(f"{name}/")):
            Path(place, path).parent.mkdir(exist_ok=True)
            Path(place, path).write_bytes(files[path])
        part = KINDS[name].from_pretrained(f"{place}/{name}")
    return part.float().eval().requires_grad_(False) if isinstance(part, nn.Module) else part


def scheduler(files: dict[str, bytes], name: str) -> Any:
    """A scheduler of this class with the folder's configuration."""
    if name not in loaded:
        config = json.loads(files["scheduler/scheduler_config.json"])
        loaded[name] = getattr(diffusers, name).from_config({**config, "skip_prk_steps": True})
    return copy.deepcopy(loaded[name])


def ready(pipe: Any, device: str) -> Any:
    """The pipeline on its device, without a progress bar."""
    pipe.set_progress_bar_config(disable=True)
    return pipe if device == "cpu" else pipe.to(device)


def shipped(files: dict[str, bytes], name: str, device: str) -> Any:
    """The pipeline in the folder, with a scheduler of this class."""
    return stable_diffusion(parts(files, *KINDS), scheduler(files, name), device)


def small(files: dict[str, bytes], seed: int, name: str, device: str) -> Any:
    """The folder's text encoder and a scheduler, with a small random UNet and VAE."""
    found = parts(files, "text_encoder", "tokenizer")
    unet, vae = seeded(seed, small_unet, small_vae)
    return stable_diffusion({**found, "unet": unet, "vae": vae}, scheduler(files, name), device)


def stable_diffusion(found: dict[str, Any], scheduler: Any, device: str) -> Any:
    """A StableDiffusionPipeline of these components."""
    pipe = StableDiffusionPipeline(
        **found,
        scheduler=scheduler,
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    return ready(pipe, device)


def flux(files: dict[str, bytes], seed: int, dtype: torch.dtype, device: str) -> Any:
    """FluxPipeline with the folder's text encoder; other networks are small and random."""
    found = parts(files, "text_encoder", "tokenizer")
    words = sorted(json.loads(files["tokenizer/vocab.json"]))
    encoder = functools.partial(second_encoder, len(SPECIAL) + len(words))
    networks = seeded(seed, small_vae, encoder, small_transformer)
    vae, encoder_2, transformer = (network.to(dtype) for network in networks)
    pipe = FluxPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0),
        vae=vae,
        text_encoder=found["text_encoder"].to(dtype),
        tokenizer=found["tokenizer"],
        text_encoder_2=encoder_2,
        tokenizer_2=second_tokenizer(words),
        transformer=transformer,
    )
    pipe.default_sample_size = 8  # as the small UNet's: whoever drops height and width waits little
    return ready(pipe, device)


def wan(files: dict[str, bytes], seed: int, device: str) -> Any:
    """WanPipeline, text to video, of small random networks; it has no second transformer."""
    words = sorted(json.loads(files["tokenizer/vocab.json"]))
    encoder = functools.partial(video_encoder, len(SPECIAL) + len(words))
    vae, text_encoder, transformer = seeded(seed, video_vae, encoder, video_transformer)
    pipe = WanPipeline(
        tokenizer=second_tokenizer(words),
        text_encoder=text_encoder,
        vae=vae,
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0),
        transformer=transformer,
    )
    return ready(pipe, device)


def seeded(seed: int, *makers: Callable[[], Any]) -> list[Any]:
    """Networks whose random weights follow from the seed, as does torch's global generator then.

    So what a run draws from that one by mistake can be drawn again.
    """
    with torch.random.fork_rng(devices=[]):
        for make in makers:  # building one takes long: once for each kind
            if made_by(make) not in loaded:
                torch.default_generator.manual_seed(0)  # the same whatever was built before
                loaded[made_by(make)] = make().eval().requires_grad_(False)
    torch.default_generator.manual_seed(seed)
    return [mixed(twin(loaded[made_by(make)], {})) for make in makers]


def made_by(make: Callable[[], Any]) -> Any:
    """What tells the networks of one function from those of another."""
    return (make.func, make.args) if isinstance(make, functools.partial) else make


def mixed(network: Any) -> Any:
    """The network with the numbers of each parameter moved on, the last ones to the front."""
    parameters = list(network.parameters())
    moves = torch.randint(2**31, (len(parameters),)).tolist()
    for parameter, move in zip(parameters, moves, strict=True):
        parameter.data = parameter.data.roll(move % parameter.numel())  # of all, not of an axis
    return network


def small_unet(kind: Any = UNet2DConditionModel) -> Any:
    """UNet2DConditionModel: one level, and one attention to the text, in the middle."""
    return kind(
        sample_size=8,
        block_out_channels=(16,),
        layers_per_block=1,
        down_block_types=("DownBlock2D",),
        up_block_types=("UpBlock2D",),
        cross_attention_dim=64,
        attention_head_dim=4,  # the number of heads
        norm_num_groups=8,
    )


def small_vae() -> Any:
    """AutoencoderKL: images (B, 3, 2H, 2W), latents (B, 4, H, W)."""
    return AutoencoderKL(
        block_out_channels=(8, 16),
        down_block_types=("DownEncoderBlock2D",) * BLOCKS,
        up_block_types=("UpDecoderBlock2D",) * BLOCKS,
        latent_channels=4,
        norm_num_groups=4,
        scaling_factor=0.4,
        shift_factor=0.1,
        use_quant_conv=False,
        use_post_quant_conv=False,
    )


def second_encoder(size: int) -> Any:
    """T5EncoderModel of two layers."""
    return T5EncoderModel(
        T5Config(vocab_size=size, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
    )


def second_tokenizer(words: list[str]) -> Any:
    """One token a word."""
    known = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate((*SPECIAL, *words))}, unk_token="<unk>")
    )
    known.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=known, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )


def small_transformer() -> Any:
    """FluxTransformer2DModel of two blocks: tokens of four latent pixels, (B, N, 16)."""
    return FluxTransformer2DModel(
        patch_size=1,
        in_channels=16,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=32,
        pooled_projection_dim=64,
        axes_dims_rope=(4, 6, 6),
        guidance_embeds=True,
    )


def video_vae() -> Any:
    """AutoencoderKLWan: videos (B, 3, 2F - 1, 2H, 2W), latents (B, 4, F, H, W)."""
    return AutoencoderKLWan(
        base_dim=4,
        z_dim=4,
        dim_mult=[1, 1],
        num_res_blocks=1,
        temperal_downsample=[True],
        latents_mean=[0.1] * 4,
        latents_std=[2.5] * 4,
        scale_factor_temporal=2,
        scale_factor_spatial=2,
    )


def video_encoder(size: int) -> Any:
    """UMT5EncoderModel of one layer."""
    return UMT5EncoderModel(
        UMT5Config(vocab_size=size, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2)
    )


def video_transformer() -> Any:
    """WanTransformer3DModel of one block: tokens of 2 by 2 latent pixels of one frame."""
    return WanTransformer3DModel(
        num_attention_heads=2,
        attention_head_dim=12,
        in_channels=4,
        out_channels=4,
        text_dim=16,
        freq_dim=8,
        ffn_dim=16,
        num_layers=1,
        rope_max_seq_len=32,
    )


class Painter(ModelMixin):  # type: ignore[misc]  # it has no types
    """Decodes and is no AutoencoderKL; it gives a bare tensor."""

    def __init__(self, inside: AutoencoderKL) -> None:
        super().__init__()
        self.inside = inside

    def decode(self, z: Tensor) -> Tensor:
        image: Tensor = self.inside.decode(z / self.inside.config.scaling_factor).sample
        return image


class Thinker(UNet2DConditionModel):  # type: ignore[misc]  # it has no types
    """A network whose class has another name."""


class Clock(EulerDiscreteScheduler):  # type: ignore[misc]  # it has no types
    """A scheduler whose class has another name, and whose step works for `work` seconds more."""

    work = 0.0

    def step(self, *args: Any, **kwargs: Any) -> Any:
        time.sleep(self.work)
        return super().step(*args, **kwargs)


class Mixer(nn.Module):
    """A network, but none of diffusers or transformers."""

    dtype = torch.float32  # a pipeline that moves to a device asks

    def forward(self, plain: Tensor, guided: Tensor, scale: float) -> Tensor:
        return plain + scale * (guided - plain)


class Counter:
    """It has a step and is no scheduler."""

    def step(self, count: int) -> int:
        return count + 1


class Renamed(DiffusionPipeline):  # type: ignore[misc]  # it has no types
    """Components under names of their own, called by keyword, the network twice a turn.

    `rest` are seconds that pass before the first, after each step and after the last, when no
    component works; `runs` counts how often it was called.
    """

    painter: Any
    clock: Any
    reader: Any
    words: Any
    thinker: Any
    mixer: Any
    counter: Any

    def __init__(
        self,
        painter: Any,
        clock: Any,
        reader: Any,
        words: Any,
        thinker: Any,
        mixer: Any,
        counter: Any,
    ) -> None:
        super().__init__()
        self.register_modules(
            painter=painter,
            clock=clock,
            reader=reader,
            words=words,
            thinker=thinker,
            mixer=mixer,
            counter=counter,
        )
        self.rest, self.runs = 0.0, 0

    @torch.no_grad()
    def __call__(
        self,
        prompt: list[str],
        num_inference_steps: int,
        generator: Any,
        output_type: str = "pil",
        guidance_scale: float = 2.0,
        return_dict: bool = True,
    ) -> Any:
        self.runs = self.counter.step(self.runs)
        time.sleep(self.rest)
        ids = self.words(prompt, padding="max_length", truncation=True, return_tensors="pt")
        self.words.decode(ids["input_ids"][0])
        read = self.reader(input_ids=ids["input_ids"].to(self.reader.device)).last_hidden_state
        self.clock.set_timesteps(num_inference_steps)
        noise = torch.randn((len(prompt), 4, 8, 6), generator=generator).to(self.reader.device)
        x = noise * self.clock.init_noise_sigma
        for t in self.clock.timesteps:
            seen = self.clock.scale_model_input(x, t)
            empty = torch.zeros_like(read)
            plain, guided = (
                self.thinker(sample=seen, timestep=t, encoder_hidden_states=text).sample
                for text in (empty, read)
            )
            output = self.mixer(plain, guided, guidance_scale)
            x = self.clock.step(model_output=output, timestep=t, sample=x).prev_sample
            time.sleep(self.rest)
        image = torch.cat([self.painter.decode(z=one[None]) for one in x])
        time.sleep(self.rest)
        image = (image / 2 + 0.5).clamp(0, 1)
        images = image if output_type == "pt" else image.movedim(1, 3).cpu().numpy()
        return ImagePipelineOutput(images=images) if return_dict else (images,)


def renamed(files: dict[str, bytes], seed: int, rest: float, work: float, device: str) -> Any:
    """A `Renamed` pipeline with Euler, the folder's text encoder, and small random networks.

    `rest` seconds pass in each pause; each component works for `work` seconds longer than it must.
    """
    unet, vae = seeded(seed, functools.partial(small_unet, Thinker), small_vae)
    clock = Clock.from_config(scheduler(files, "EulerDiscreteScheduler").config)
    clock.work = work
    reader, words = parts(files, "text_encoder", "tokenizer").values()
    pipe = Renamed(Painter(vae).eval(), clock, reader, words, unet, Mixer(), Counter())
    pipe.rest = rest
    for inside in (pipe.painter.inside.decoder, pipe.thinker.conv_in, embedding_of(pipe.reader)):
        inside.register_forward_pre_hook(lambda *_: time.sleep(work))
    return ready(pipe, device)


def runs_of(pipe: Any) -> int:
    """How often a `Renamed` pipeline was called."""
    runs: int = pipe.runs
    return runs


def embedding_of(encoder: nn.Module) -> nn.Module:
    """A layer inside a text encoder."""
    return next(part for part in encoder.modules() if isinstance(part, nn.Embedding))


def become_view(tensor: Tensor, kind: int) -> None:
    """Let the tensor itself become a view of what it held: of another size, or other strides."""
    views = (tensor[1:, :, 1:-1, ::2], tensor[:1].expand(3, -1, -1, -1), tensor.mT)
    tensor.data = views[kind]


# Runs without a trace


def plain_run(pipe: Any, prompt: Any, steps: int, generator: Any, call: dict[str, Any]) -> Tensor:
    """The picture or video. oneDNN takes longer for such small convolutions than it saves."""
    settings = {"num_inference_steps": steps, "generator": generator, "output_type": "pt"}
    mkldnn: Any = torch.backends.mkldnn  # its flags() sets more, and warns
    before, mkldnn.enabled = mkldnn.enabled, False
    try:
        images: Tensor = pipe(prompt, **settings, **call)[0]
    finally:
        mkldnn.enabled = before
    return images


def break_off(pipe: Any, stage: str, nth: int, text: str, furnished: bool) -> None:
    """Let the run stop inside the nth call of a component of this stage, with this text."""
    if furnished:
        furnish(pipe)
    count = 0

    def fail(*_: Any, **__: Any) -> None:
        nonlocal count
        count += 1
        if count == nth:
            raise BREAKS[stage](text)

    if stage == "step":
        inner = pipe.scheduler._get_variance

        def variance(*args: Any, **kwargs: Any) -> Any:
            fail()
            return inner(*args, **kwargs)

        pipe.scheduler._get_variance = variance
    else:
        inside = {
            "encode": embedding_of(pipe.text_encoder),
            "denoise": pipe.unet.conv_in,
            "decode": pipe.vae.decoder,
        }
        inside[stage].register_forward_pre_hook(fail)


def stand_in(pipe: Any, seed: int) -> None:
    """Let the network give bfloat16 noise, the same on both sides whatever it is shown."""
    generator = torch.Generator().manual_seed(seed)

    def forward(sample: Tensor, *_: Any, **__: Any) -> tuple[Tensor]:
        noise = torch.rand(sample.shape, generator=generator) - 0.4
        return (noise.to(sample.device, torch.bfloat16),)

    put_there.add(forward)
    pipe.unet.forward = forward


def poison(pipe: Any) -> None:
    """Let the network's second prediction hold a NaN."""
    inner, count = pipe.unet.forward, 0

    def forward(*args: Any, **kwargs: Any) -> tuple[Tensor]:
        nonlocal count
        guess = inner(*args, **kwargs)[0].clone()
        count += 1
        if count == 2:
            guess[-1, 0, 0, 0] = torch.nan
        return (guess,)

    put_there.add(forward)
    pipe.unet.forward = forward


# Something to listen to


class Toy(nn.Module):
    """A network with a method beside: each works for `work` seconds, and may call itself."""

    def __init__(self, work: float = 0.0) -> None:
        super().__init__()
        self.work = work

    def forward(self, x: Tensor, again: int = 0) -> tuple[Tensor, Tensor]:
        time.sleep(self.work)
        if again:
            x = self(x, again=again - 1)[0]
        return whole(x) + 1, x.abs()

    def preview(
        self, x: Tensor, *, scale: float = 2.0, generator: Any = None
    ) -> tuple[Tensor, Tensor]:
        time.sleep(self.work)
        return whole(x) * scale, x.abs()


class Sketch:
    """No network, with a method that may call itself."""

    def __init__(self, work: float = 0.0) -> None:
        self.work = work

    def preview(self, x: Tensor, again: int = 0, scale: float = 2.0) -> tuple[Tensor, Tensor]:
        time.sleep(self.work)
        if again:
            x = self.preview(x, again - 1, scale=scale)[0]
        return whole(x) * scale, x.abs()


def whole(x: Tensor) -> Tensor:
    """The tensor, unless a NaN is in it: then the run stops here."""
    if x.isnan().any():
        raise MeltdownError("a NaN came in")
    return x


def tripled(result: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    return result[0] * 3, result[1]


def toy(work: float, furnished: bool) -> Any:
    """A network; the lab may have put hooks and a function over its method."""
    made = Toy(work)
    if furnished:
        over(made, "preview", tripled)
        made.register_forward_hook(Furniture())
        made.register_forward_pre_hook(Furniture())
    return made


def sketch(work: float, furnished: bool) -> Any:
    """An object that is no network; the lab may have put a function over its method."""
    made = Sketch(work)
    if furnished:
        over(made, "preview", tripled)
    return made


def stack() -> contextlib.ExitStack:
    """What is to be undone."""
    return contextlib.ExitStack()


def toy_state(part: Any) -> str:
    """Hooks and attributes of an object and of its class."""
    kind = type(part)
    own = vars(kind).items()
    told = f"{kind.__name__}: {attributes_of(part)}; the class has {[name for name, _ in own]}"
    if isinstance(part, nn.Module):
        hooks = sum(len(getattr(part, name)) for name in HOOKS)
        told += f"; {hooks} hooks; {others_of(part)} calls of hooks that were put there"
    everywhere = sum(len(getattr(MODULE, name)) for name in EVERYWHERE)
    return f"{told}; {everywhere} hooks on all modules"


def parameters_of(part: Any) -> str:
    """What inspect.signature tells of the method."""
    return ", ".join(inspect.signature(part.preview).parameters)


# What is there, before and after

MODULE = torch.nn.modules.module
EVERYWHERE = [
    name
    for name, value in vars(MODULE).items()
    if name.startswith("_global_") and isinstance(value, dict)
]
HOOKS = [name for name in vars(nn.Module()) if "_hooks" in name]
CLASSES = (
    *KINDS.values(),
    *(DiffusionPipeline, StableDiffusionPipeline, FluxPipeline, Renamed),
    *(Painter, Thinker, Clock, Mixer, Counter),
    *(FlowMatchEulerDiscreteScheduler, FluxTransformer2DModel, T5EncoderModel),
    *(getattr(diffusers, name) for name in SCHEDULERS),
)


METHODS = (
    *("__call__", "_call_impl", "_wrapped_call_impl", "forward", "decode", "_decode", "step"),
    *("__getattr__", "__getattribute__", "__setattr__", "encode_prompt", "components"),
)


def methods_of_classes() -> dict[str, Any]:
    """Where a run passes through: methods of the classes and of their bases."""
    bases = {base for kind in CLASSES for base in kind.__mro__[:-1]}
    return {
        f"{base.__module__}.{base.__name__}.{name}": vars(base)[name]
        for base in bases
        for name in METHODS
        if name in vars(base)
    }


def public_names() -> set[str]:
    """Names in torch, and in the classes and their bases; modules come when they are needed."""
    bases = {base for kind in (*CLASSES, Tensor) for base in kind.__mro__[:-1]}
    told = {f"{base.__name__}.{name}" for base in bases for name in vars(base) if name[0] != "_"}
    for name, value in tuple(vars(torch).items()):
        if name[0] != "_" and not isinstance(value, ModuleType):
            told.add(f"torch.{name}")
    return told


def settings() -> dict[str, Any]:
    """What holds for the whole process."""
    return {
        "threads": torch.get_num_threads(),
        "default dtype": str(torch.get_default_dtype()),
        "seed": torch.initial_seed(),
    }


AS_THEY_WERE = methods_of_classes()
NAMES = public_names()
put_there: weakref.WeakSet[Any] = weakref.WeakSet()  # functions that are not the learner's


def state(pipe: Any) -> dict[str, str]:
    """Hooks and attributes of the pipeline and its components, and what is changed elsewhere."""
    told = {"pipe": attributes_of(pipe)}
    for name, part in pipe.components.items():
        kind = type(part)
        told[name] = f"{kind.__name__}, with {len(kind.__mro__) - 1} bases: {attributes_of(part)}"
        if isinstance(part, nn.Module):
            inside = [len(vars(module)) for module in part.modules()]
            hooks = [len(getattr(module, kind)) for module in part.modules() for kind in HOOKS]
            told[name] += f"; {sum(hooks)} hooks; {sum(inside)} attributes inside"
            told[name] += f"; {others_of(part)} calls of hooks that were put there"
    now = methods_of_classes()
    changed = (name for name in now | AS_THEY_WERE if now.get(name) is not AS_THEY_WERE.get(name))
    told["classes"] = ", ".join(sorted(changed))
    names = public_names()
    told["names"], told["lost names"] = (
        ", ".join(sorted(some)) for some in (names - NAMES, NAMES - names)
    )
    told["torch.nn"] = f"{sum(len(getattr(MODULE, kind)) for kind in EVERYWHERE)} hooks"
    return told


def others_of(part: nn.Module) -> int:
    """How often the hooks that `furnish` put there, and that are there still, were called."""
    hooks = [*part._forward_hooks.values(), *part._forward_pre_hooks.values()]
    return sum(len(hook.calls) for hook in hooks if isinstance(hook, Furniture))


class Furniture:
    """A hook of somebody else's, which counts."""

    def __init__(self) -> None:
        self.calls: list[None] = []

    def __call__(self, *_: Any) -> None:
        self.calls.append(None)


def attributes_of(part: Any) -> str:
    """The names in an object's __dict__; those that the lab put there are said to be its own."""
    known: dict[str, Any] = getattr(part, "__dict__", {})
    return ", ".join(sorted(name + origin(part, name, value) for name, value in known.items()))


def origin(part: Any, name: str, value: Any) -> str:
    """What an attribute is that stands over a method."""
    if callable(value) and value in put_there:
        return " (put there)"
    of_class = getattr(type(part), name, None)
    same = of_class is not None and getattr(value, "__func__", None) is of_class
    return " (the class's own method)" if same else ""


def over(part: Any, name: str, change: Callable[[Any], Any]) -> None:
    """Put a function over a method, on the object."""
    inner = getattr(part, name)

    def outer(*args: Any, **kwargs: Any) -> Any:
        return change(inner(*args, **kwargs))

    put_there.add(outer)
    setattr(part, name, outer)


def furnish(pipe: Any) -> None:
    """Put a hook on a network, and attributes over methods, as other tools do.

    The decoder's pictures lose two columns: a view, of a tensor that has more.
    """

    over(pipe.vae, "decode", lambda result: (result[0][..., 1:-1],))
    over(pipe.unet, "forward", lambda result: (result[0] * 0.5,))
    over(pipe.text_encoder, "forward", lambda result: result)
    over(pipe.scheduler, "step", lambda result: result)
    for part in (pipe.unet, pipe.text_encoder):
        part.register_forward_hook(Furniture())
        part.register_forward_pre_hook(Furniture())
