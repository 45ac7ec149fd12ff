"""Lab 06 · Diffusers pipeline components: what `pipe(...)` does, with the pipeline taken away.

Goal: see that a pipeline is no model. It is a folder with an index, a set of components that know
nothing of each other, and a function that hands tensors from one to the next. Here you read the
index, load the components, and write that function.

You may import models and schedulers from diffusers, and transformers. `diffusers.pipelines` is
masked, and with it `diffusers.AutoModel`, which looks its classes up there.

Symbols: P = prompts, n = images for each prompt, B = P·n, L, D = tokens and width of the text
embeddings, C, h, w = channels and sides of the latents, H, W = sides of the image.
Components: a dict {name: component or None}, with the names of a Stable Diffusion folder: "vae",
"text_encoder", "tokenizer", "unet", "scheduler", and empty ones such as "safety_checker".
"""

import importlib
import inspect
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

Components = dict[str, Any]
Generator = torch.Generator | list[torch.Generator]


def read_index(folder: str) -> dict[str, tuple[str, str] | None]:
    """6.1 · What a saved pipeline consists of: {component: (library, class), or None}.

    folder: the path of a saved pipeline. Its model_index.json holds an object in which a component
    is a list of two texts, [library, class]. [null, null] is a component that was left out when the
    pipeline was saved: None. Names that begin with _ are no components, and neither are values that
    are no list of two: they are settings of the pipeline.

    Source: DiffusionPipeline.load_config and from_pretrained.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> index = {"_class_name": "Mine", "vae": ["diffusers", "AutoencoderKL"], "tiled": False}
    >>> index["safety_checker"] = [None, None]
    >>> _ = Path(folder, "model_index.json").write_text(json.dumps(index))
    >>> read_index(folder)
    {'vae': ('diffusers', 'AutoencoderKL'), 'safety_checker': None}
    """
    ### BEGIN SOLUTION
    text = Path(folder, "model_index.json").read_text(encoding="utf-8")
    index: dict[str, tuple[str, str] | None] = {}
    for name, value in json.loads(text).items():
        if name.startswith("_") or not isinstance(value, list) or len(value) != 2:
            continue
        library, class_name = value
        index[name] = None if library is None else (library, class_name)
    return index
    ### END SOLUTION


def load_components(folder: str, dtype: str, device: str) -> Components:
    """6.2 · Every component of a saved pipeline, loaded from the folder that has its name.

    folder: as in 6.1; beside the index it has a folder for each component. dtype: the name of a
    torch dtype, such as "float16". Returns a dict with every name of 6.1; a component that was left
    out is None. The library and the class of the index say what to load. What is a torch module
    comes in this dtype, on this device, and in eval mode; tokenizer and scheduler have neither.

    Source: DiffusionPipeline.from_pretrained.

    >>> import tempfile
    >>> from diffusers import EulerDiscreteScheduler
    >>> folder = tempfile.mkdtemp()
    >>> index = {"scheduler": ["diffusers", "EulerDiscreteScheduler"]}
    >>> index["image_encoder"] = [None, None]
    >>> _ = Path(folder, "model_index.json").write_text(json.dumps(index))
    >>> EulerDiscreteScheduler(beta_end=0.012).save_pretrained(folder + "/scheduler")
    >>> components = load_components(folder, "float32", "cpu")
    >>> components["scheduler"].config.beta_end, components["image_encoder"]
    (0.012, None)
    """
    ### BEGIN SOLUTION
    wanted = getattr(torch, dtype)
    components: Components = {}
    for name, entry in read_index(folder).items():
        if entry is None:
            components[name] = None
            continue
        library, class_name = entry
        kind = getattr(importlib.import_module(library), class_name)
        component = kind.from_pretrained(str(Path(folder, name)))
        if isinstance(component, torch.nn.Module):
            component = component.to(device, wanted).eval()
        components[name] = component
    return components
    ### END SOLUTION


def encode_prompt(
    tokenizer: Any, text_encoder: Any, prompts: list[str], images_per_prompt: int
) -> tuple[Tensor, list[str]]:
    """6.3 · The text embeddings of P prompts, each n times, and what did not fit.

    tokenizer: a CLIPTokenizer, whose model_max_length is L (77 in Stable Diffusion, less here).
    text_encoder: a CLIPTextModel. prompts: P texts, some longer than L tokens. Returns

    * embeds (P·n, L, D) in the text encoder's dtype: its last hidden state for the ids, padded or
      cut to L tokens, whatever the longest prompt is. No attention mask is passed. Rows are in the
      order [a, a, b, b].
    * removed: P texts. For each prompt alone, the tokens beyond L, the end token not counted,
      decoded: tokenizer.decode(ids[L - 1 : -1]). "" when all of it fits.

    Source: StableDiffusionPipeline.encode_prompt (which writes what was removed to its log).

    >>> from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer
    >>> ids = {"a</w>": 0, "b</w>": 1, "<|startoftext|>": 2, "<|endoftext|>": 3}
    >>> tokenizer = CLIPTokenizer(vocab=ids, model_max_length=4)  # two words and two special tokens
    >>> sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    >>> config = CLIPTextConfig(vocab_size=4, bos_token_id=2, eos_token_id=3, **sizes)
    >>> embeds, removed = encode_prompt(tokenizer, CLIPTextModel(config), ["a", "a a b a"], 3)
    >>> tuple(embeds.shape), removed
    ((6, 4, 8), ['', 'b a'])
    """
    ### BEGIN SOLUTION
    longest = tokenizer.model_max_length
    padded = tokenizer(
        prompts, padding="max_length", max_length=longest, truncation=True, return_tensors="pt"
    )
    hidden = text_encoder(padded.input_ids.to(text_encoder.device))[0]
    embeds = hidden.to(text_encoder.dtype).repeat_interleave(images_per_prompt, dim=0)
    removed = []
    for prompt in prompts:
        ids = tokenizer(prompt).input_ids
        removed.append(tokenizer.decode(ids[longest - 1 : -1]))
    return embeds, removed
    ### END SOLUTION


def prepare_latents(
    shape: tuple[int, ...],
    scheduler: Any,
    generator: Generator,
    dtype: torch.dtype,
    device: str | torch.device,
) -> Tensor:
    """6.4 · The latents that the first step starts from.

    shape: (B, C, h, w). scheduler: has its timesteps. generator: one for the whole batch, or a list
    with one for each image (another number of them than B: ValueError). Each may have been used
    before; go on where it is.

    Standard normal noise, drawn in `dtype` on the device of the generator, moved to `device`, then
    multiplied by scheduler.init_noise_sigma. With a list, image i is drawn by generator i alone,
    with shape (1, C, h, w). Returns `shape` in `dtype`.

    Source: StableDiffusionPipeline.prepare_latents, randn_tensor.

    >>> from types import SimpleNamespace
    >>> scheduler = SimpleNamespace(init_noise_sigma=10.0)
    >>> seeded = lambda seed: torch.Generator().manual_seed(seed)
    >>> x = prepare_latents((2, 4, 8, 8), scheduler, [seeded(0), seeded(1)], torch.float32, "cpu")
    >>> torch.equal(x[1:], 10 * torch.randn(1, 4, 8, 8, generator=seeded(1)))
    True
    """
    ### BEGIN SOLUTION
    if isinstance(generator, list):
        if len(generator) != shape[0]:
            raise ValueError(f"{len(generator)} generators were given for {shape[0]} images")
        each = (1, *shape[1:])
        drawn = [torch.randn(each, generator=g, dtype=dtype, device=g.device) for g in generator]
        noise = torch.cat(drawn)
    else:
        noise = torch.randn(shape, generator=generator, dtype=dtype, device=generator.device)
    return noise.to(device) * scheduler.init_noise_sigma
    ### END SOLUTION


def generate(
    components: Components,
    prompt: list[str],
    negative_prompt: list[str],
    steps: int,
    scale: float,
    generator: Generator,
    images_per_prompt: int,
    height: int,
    width: int,
) -> Any:
    """6.5 · Text to image, from components to pixels: (P·n, H, W, 3) uint8.

    prompt, negative_prompt: P texts each. scale: w; above 1 guidance as in lab 04, otherwise the
    prompt alone. generator: as in 6.4; it draws the first latents and then, in the scheduler's
    `step`, whatever noise that needs. Pass it to `step` only where `step` has a parameter of that
    name: not every scheduler's has one. height, width: of the image, multiples of 8. images come in
    the order of 6.3. Returns an array or a tensor.

    Encode, set the timesteps, prepare the latents (C from the UNet's configuration, sides from the
    VAE's), go through scheduler.timesteps, divide by vae.config.scaling_factor, decode, and turn
    −1 … 1 into 0 … 255, clamped and rounded.

    Source: StableDiffusionPipeline.__call__.

    >>> from types import SimpleNamespace as Box
    >>> class Encoder:
    ...     dtype, device = torch.float32, torch.device("cpu")
    ...     __call__ = lambda self, ids, **more: (torch.zeros(len(ids), 3, 2),)
    >>> class Tokenizer:
    ...     model_max_length = 3
    ...     decode = lambda self, ids: ""
    ...     __call__ = lambda self, texts, **how: Box(input_ids=torch.zeros(len(texts), 3).long())
    >>> scheduler = Box(timesteps=[1], init_noise_sigma=1.0, set_timesteps=lambda n: None)
    >>> scheduler.scale_model_input = lambda x, t: x
    >>> scheduler.step = lambda output, t, x: Box(prev_sample=x - output)  # all noise, removed
    >>> unet = lambda x, t, encoder_hidden_states: Box(sample=x)
    >>> unet.config = Box(in_channels=3)
    >>> vae = Box(config=Box(block_out_channels=(8, 8), scaling_factor=0.5))
    >>> vae.decode = lambda z: Box(sample=z.repeat_interleave(2, 2).repeat_interleave(2, 3))
    >>> parts = {"vae": vae, "unet": unet, "scheduler": scheduler}
    >>> parts |= {"tokenizer": Tokenizer(), "text_encoder": Encoder()}
    >>> images = generate(parts, ["a cat"], [""], 1, 5.0, torch.Generator(), 2, 8, 16)
    >>> tuple(images.shape), int(images[0, 0, 0, 0])  # from 0, which is grey
    ((2, 8, 16, 3), 128)
    """
    ### BEGIN SOLUTION
    unet, vae, scheduler = (components[name] for name in ("unet", "vae", "scheduler"))
    readers = components["tokenizer"], components["text_encoder"]
    guided = scale > 1
    embeds, _ = encode_prompt(*readers, prompt, images_per_prompt)
    rows = len(embeds)
    if guided:
        negative, _ = encode_prompt(*readers, negative_prompt, images_per_prompt)
        embeds = torch.cat([negative, embeds])

    scheduler.set_timesteps(steps)
    factor = 2 ** (len(vae.config.block_out_channels) - 1)
    shape = (rows, unet.config.in_channels, height // factor, width // factor)
    latents = prepare_latents(shape, scheduler, generator, embeds.dtype, embeds.device)
    accepted = inspect.signature(scheduler.step).parameters
    extra = {"generator": generator} if "generator" in accepted else {}

    for t in scheduler.timesteps:
        seen = torch.cat([latents, latents]) if guided else latents
        seen = scheduler.scale_model_input(seen, t)
        predicted = unet(seen, t, encoder_hidden_states=embeds).sample
        if guided:
            uncond, cond = predicted.chunk(2)
            predicted = uncond + scale * (cond - uncond)
        latents = scheduler.step(predicted, t, latents, **extra).prev_sample

    image = vae.decode(latents / vae.config.scaling_factor).sample
    pixels = ((image / 2 + 0.5).clamp(0, 1) * 255).round()
    return pixels.to(torch.uint8).permute(0, 2, 3, 1)
    ### END SOLUTION


def swap_scheduler(components: Components, scheduler_class: str) -> Any:
    """6.6 · A scheduler of another class for the same model: the new scheduler.

    scheduler_class: the name of a scheduler in diffusers. The new one has the configuration of
    components["scheduler"], as far as its class knows the fields, and is at the beginning of its
    life: no timesteps set, nothing shared with the old one, also when the class is the same.
    `components` and the old scheduler stay as they are.

    Source: ConfigMixin.from_config.

    >>> from diffusers import DDIMScheduler
    >>> old = DDIMScheduler(beta_end=0.012, prediction_type="v_prediction")
    >>> new = swap_scheduler({"scheduler": old}, "EulerDiscreteScheduler")
    >>> type(new).__name__, new.config.beta_end, new.config.prediction_type
    ('EulerDiscreteScheduler', 0.012, 'v_prediction')
    """
    ### BEGIN SOLUTION
    kind = getattr(importlib.import_module("diffusers"), scheduler_class)
    return kind.from_config(components["scheduler"].config)
    ### END SOLUTION


def img2img_timesteps(scheduler: Any, steps: int, strength: float) -> tuple[Tensor, int]:
    """6.7 · The part of the schedule that image to image runs through.

    scheduler: its timesteps are set here, for `steps` steps. strength: in [0, 1], how much of the
    schedule is used: int(steps · strength) steps, the last ones. The first t_start = steps − that
    many steps are left out; a scheduler of order 2 has two timesteps for each. Returns
    (timesteps[t_start · order :], steps − t_start), and tells the scheduler with set_begin_index,
    where it has that, at which index it begins. Nothing left: ValueError.

    Source: StableDiffusionImg2ImgPipeline.get_timesteps (which returns nothing when nothing is
    left).

    >>> from diffusers import EulerDiscreteScheduler
    >>> scheduler = EulerDiscreteScheduler(timestep_spacing="trailing")
    >>> timesteps, left = img2img_timesteps(scheduler, 4, 0.6)
    >>> timesteps.tolist(), left, scheduler.begin_index
    ([499.0, 249.0], 2, 2)
    """
    ### BEGIN SOLUTION
    scheduler.set_timesteps(steps)
    left = min(int(steps * strength), steps)
    if left < 1:
        raise ValueError(f"strength {strength} leaves none of {steps} steps")
    begin = (steps - left) * scheduler.order
    if hasattr(scheduler, "set_begin_index"):
        scheduler.set_begin_index(begin)
    return scheduler.timesteps[begin:], left
    ### END SOLUTION
