"""Lab 06 in float64 where it can be, with pixels in numpy, and diffusers' own config reader."""

import copy
import inspect
from importlib import import_module

import numpy as np
import torch
from diffusers.configuration_utils import ConfigMixin


class Index(ConfigMixin):
    config_name = "model_index.json"


def read_index(path):
    listed = Index.load_config(path)
    public = {k: v for k, v in listed.items() if not k.startswith("_")}
    lists = {k: tuple(v) for k, v in public.items() if isinstance(v, (list, tuple))}
    return {k: (v if v != (None, None) else None) for k, v in lists.items() if len(v) == 2}


def _part(path, name, entry, dtype, device):
    if entry is None:
        return None
    module, attribute = entry
    part = vars(import_module(module)).get(attribute) or getattr(import_module(module), attribute)
    part = part.from_pretrained(f"{path}/{name}")
    if not hasattr(part, "state_dict"):
        return part
    part.requires_grad_(False)
    return part.to(dtype=dtype).to(device=torch.device(device)).eval()


def load_components(path, dtype, device):
    kind = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}[dtype]
    return {
        name: _part(path, name, entry, kind, device) for name, entry in read_index(path).items()
    }


def encode_prompt(tokenizer, text_encoder, prompts, images_per_prompt):
    full = tokenizer.model_max_length
    uncut = tokenizer(prompts, add_special_tokens=False)["input_ids"]
    grid = np.full((len(prompts), full), tokenizer.pad_token_id, dtype=np.int64)
    grid[:, 0] = tokenizer.bos_token_id
    for row, ids in zip(grid, uncut):
        kept = ids[: full - 2]
        row[1 : 1 + len(kept)] = kept
        row[1 + len(kept)] = tokenizer.eos_token_id
    exact = copy.deepcopy(text_encoder).double()
    states = exact(input_ids=torch.from_numpy(grid).to(exact.device), return_dict=False)[0]
    spread = states.to(text_encoder.dtype).unsqueeze(1).expand(-1, images_per_prompt, -1, -1)
    lost = tokenizer.batch_decode([ids[full - 2 :] for ids in uncut])
    return spread.flatten(0, 1), lost


def prepare_latents(shape, scheduler, generator, dtype, device):
    several = isinstance(generator, list)
    if several and len(generator) != shape[0]:
        raise ValueError(f"expected {shape[0]} generators")
    sources = generator if several else [generator]
    size = (shape[0] // len(sources), *shape[1:])
    drawn = [torch.randn(size, generator=g, device=g.device).double() for g in sources]
    exact = torch.vstack(drawn) * float(scheduler.init_noise_sigma)
    return exact.to(device=device, dtype=dtype)


def generate(components, prompt, negative_prompt, steps, scale, generator, images_per_prompt, h, w):
    net, vae = copy.deepcopy(components["unet"]).double(), components["vae"].double()
    scheduler = components["scheduler"]
    texts = [negative_prompt, prompt] if scale > 1 else [prompt]
    pair = [components["tokenizer"], components["text_encoder"]]
    embeds = torch.cat([encode_prompt(*pair, t, images_per_prompt)[0] for t in texts]).double()
    scheduler.set_timesteps(num_inference_steps=steps)
    ratio = 2 ** len(vae.config.block_out_channels) // 2
    shape = (len(prompt) * images_per_prompt, vae.config.latent_channels, h // ratio, w // ratio)
    x = prepare_latents(shape, scheduler, generator, torch.float32, embeds.device)
    names = list(inspect.signature(scheduler.step).parameters)
    for t in iter(scheduler.timesteps):
        seen = scheduler.scale_model_input(x, t).double().repeat(len(texts), 1, 1, 1)
        answers = net(seen, t, encoder_hidden_states=embeds, return_dict=False)[0]
        output = answers[-len(x) :]
        if scale > 1:
            output = output + (scale - 1) * (output - answers[: len(x)])
        arguments = {"generator": generator} if "generator" in names else {}
        x = scheduler.step(output.float(), t, x, return_dict=False, **arguments)[0]
    image = vae.decode(x.double() / vae.config.scaling_factor, return_dict=False)[0]
    share = np.clip(image.cpu().numpy() / 2 + 0.5, 0, 1).transpose(0, 2, 3, 1)
    return np.rint(share * 255).astype(np.uint8)


def swap_scheduler(components, scheduler_class):
    config = components["scheduler"].config
    kind = getattr(import_module("diffusers.schedulers"), scheduler_class)
    known = set(inspect.signature(kind).parameters)
    return kind(**{name: copy.deepcopy(config[name]) for name in config if name in known})


def img2img_timesteps(scheduler, steps, strength):
    scheduler.set_timesteps(steps, device="cpu")
    done = int(np.floor(min(1.0, strength) * steps))
    if not done:
        raise ValueError("strength is too small for this number of steps")
    per_step = 2 if scheduler.order == 2 else 1
    skipped = per_step * (steps - done)
    if "set_begin_index" in dir(scheduler):
        scheduler.set_begin_index(begin_index=skipped)
    return scheduler.timesteps.narrow(0, skipped, len(scheduler.timesteps) - skipped), done
