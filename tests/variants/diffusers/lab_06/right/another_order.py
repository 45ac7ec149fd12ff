"""Lab 06 from the other end: auto classes, the library's small helpers, views for results."""

from functools import partial
from pathlib import Path

import torch
import transformers
from diffusers import AutoencoderKL, UNet2DConditionModel, schedulers
from diffusers.image_processor import VaeImageProcessor
from diffusers.utils.torch_utils import randn_tensor


def read_index(folder):
    import json

    data = json.loads((Path(folder) / "model_index.json").read_bytes())

    def is_component(item):
        name, value = item
        return type(value) is list and len(value) == 2 and not name.startswith("_")

    return {k: tuple(v) if v[0] else None for k, v in filter(is_component, sorted(data.items()))}


def load_components(folder, dtype, device):
    loaders = {
        "CLIPTextModel": transformers.CLIPTextModel.from_pretrained,
        "CLIPTokenizer": transformers.AutoTokenizer.from_pretrained,
        "UNet2DConditionModel": UNet2DConditionModel.from_pretrained,
        "AutoencoderKL": partial(AutoencoderKL.from_pretrained, low_cpu_mem_usage=False),
    }
    parts = dict.fromkeys(read_index(folder))
    for name, entry in list(read_index(folder).items()):
        if entry:
            load = loaders.get(entry[1])
            if load is None:
                load = getattr(schedulers, entry[1]).from_pretrained
            parts[name] = load(Path(folder) / name)
    for part in parts.values():
        if isinstance(part, torch.nn.Module):
            for tensor in (*part.parameters(), *part.buffers()):
                if tensor.is_floating_point():
                    tensor.data = tensor.data.to(device, getattr(torch, dtype))
                else:
                    tensor.data = tensor.data.to(device)
            part.eval()
    return parts


@torch.inference_mode()
def encode_prompt(tokenizer, text_encoder, prompts, images_per_prompt):
    batch = tokenizer(
        [p for p in prompts for _ in range(images_per_prompt)],
        truncation=True,
        max_length=tokenizer.model_max_length,
        padding="max_length",
        return_attention_mask=False,
        return_tensors="pt",
    )
    state = text_encoder(**batch.to(text_encoder.device)).last_hidden_state
    uncut = [tokenizer.tokenize(p) for p in prompts]
    room = tokenizer.model_max_length - tokenizer.num_special_tokens_to_add()
    rest = [tokenizer.convert_tokens_to_ids(tokens[room:]) for tokens in uncut]
    texts = [tokenizer.decode(ids) if ids else "" for ids in rest]
    return state.mT.contiguous().mT, texts


def prepare_latents(shape, scheduler, generator, dtype, device):
    if not isinstance(generator, torch.Generator) and len(generator) != shape[0]:
        raise ValueError("one generator an image")
    noise = randn_tensor(shape, generator=generator, device=torch.device(device), dtype=dtype)
    wide = torch.stack([noise, noise], dim=-1) * scheduler.init_noise_sigma
    return wide[..., 0]


class Guided:
    def __init__(self, unet, negative, positive, scale):
        self.unet, self.scale = unet, scale
        self.texts = [positive] if scale <= 1 else [negative, positive]

    def __call__(self, x, t):
        predictions = [self.unet(x, t, encoder_hidden_states=text).sample for text in self.texts]
        if len(predictions) == 1:
            return predictions[0]
        first, second = predictions
        return torch.lerp(first, second, self.scale)


@torch.inference_mode()
def generate(c, texts, negatives, n, w, g, m, height, width):
    encode = partial(encode_prompt, c["tokenizer"], c["text_encoder"], images_per_prompt=m)
    positive, negative = encode(texts)[0], encode(negatives)[0]
    network = Guided(c["unet"], negative, positive, w)
    scheduler = c["scheduler"]
    scheduler.set_timesteps(n, device=positive.device)
    h, v = (side >> (len(c["vae"].config.down_block_types) - 1) for side in (height, width))
    x = prepare_latents((len(positive), 4, h, v), scheduler, g, positive.dtype, positive.device)
    step = scheduler.step
    if "generator" in step.__code__.co_varnames[: step.__code__.co_argcount]:
        step = partial(step, generator=g)
    for moment in scheduler.timesteps:
        seen = scheduler.scale_model_input(x, moment)
        x = step(network(seen, moment), moment, x)[0]
    decoded = c["vae"].decode(x.div(c["vae"].config.scaling_factor))[0]
    share = torch.from_numpy(VaeImageProcessor().postprocess(decoded, output_type="np"))
    return (share * 255).round().byte()


def swap_scheduler(components, scheduler_class):
    old = components["scheduler"]
    new_class = {kind.__name__: kind for kind in (type(old), *old.compatibles)}[scheduler_class]
    return new_class.from_config(old.config)


def img2img_timesteps(scheduler, steps, strength):
    left = int(strength * steps)
    if left <= 0:
        raise ValueError(left)
    scheduler.set_timesteps(num_inference_steps=steps)
    total = len(scheduler.timesteps)
    skipped = steps * scheduler.order - left * scheduler.order
    if getattr(scheduler, "set_begin_index", None):
        scheduler.set_begin_index(skipped)
    return scheduler.timesteps.flip(0)[: total - skipped].flip(0), left
