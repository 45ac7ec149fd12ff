"""Lab 06 in plain loops: names read one by one, ids padded by hand, an image at a time."""

import json
import os

import diffusers
import torch
import transformers


def read_index(place):
    with open(os.path.join(place, "model_index.json")) as handle:
        raw = json.load(handle)
    out = {}
    for key in raw:
        entry = raw[key]
        if key[:1] == "_":
            continue
        if not isinstance(entry, list):
            continue
        if len(entry) == 2:
            if entry[0] is None and entry[1] is None:
                out[key] = None
            else:
                out[key] = [entry[0], entry[1]]
    return out


def load_components(place, dtype, device):
    libraries = {"diffusers": diffusers, "transformers": transformers}
    out = {}
    for key, entry in read_index(place).items():
        if entry is None:
            out[key] = None
        elif key == "scheduler" or key.startswith("tokenizer"):
            out[key] = getattr(libraries[entry[0]], entry[1]).from_pretrained(place, subfolder=key)
        else:
            kind = getattr(libraries[entry[0]], entry[1])
            network = kind.from_pretrained(place, subfolder=key, torch_dtype=getattr(torch, dtype))
            network.to(device)
            network.train(False)
            out[key] = network
    return out


def encode_prompt(words, reader, texts, copies):
    limit = words.model_max_length
    hidden, left_over = [], []
    for text in texts:
        ids = words.encode(text)
        if len(ids) > limit:
            left_over.append(words.decode(ids[limit - 1 : len(ids) - 1]))
            ids = ids[: limit - 1] + [words.eos_token_id]
        else:
            left_over.append("")
        while len(ids) < limit:
            ids.append(words.pad_token_id)
        with torch.no_grad():
            state = reader(torch.tensor([ids], device=reader.device)).last_hidden_state
        for _ in range(copies):
            hidden.append(state[0])
    return torch.stack(hidden), tuple(left_over)


def prepare_latents(size, schedule, source, dtype, device):
    if isinstance(source, (list, tuple)):
        if len(source) != size[0]:
            raise ValueError("need one generator for each image")
        out = torch.empty(size, dtype=dtype, device=device)
        for i in range(size[0]):
            one = torch.randn(size[1:], generator=source[i], dtype=dtype, device=source[i].device)
            out[i] = one.to(device) * float(schedule.init_noise_sigma)
        return out
    out = torch.randn(*size, generator=source, dtype=dtype, device=source.device).to(device)
    out *= float(schedule.init_noise_sigma)
    return out


def generate(parts, texts, against, steps, weight, source, copies, rows, columns):
    schedule = parts["scheduler"]
    shrink = 1
    for _ in parts["vae"].config["block_out_channels"][1:]:
        shrink *= 2
    good, _ = encode_prompt(parts["tokenizer"], parts["text_encoder"], texts, copies)
    bad, _ = encode_prompt(parts["tokenizer"], parts["text_encoder"], against, copies)
    schedule.set_timesteps(steps)
    size = (good.shape[0], parts["unet"].config["in_channels"], rows // shrink, columns // shrink)
    state = prepare_latents(size, schedule, source, good.dtype, good.device)
    with torch.no_grad():
        for moment in schedule.timesteps:
            view = schedule.scale_model_input(state, moment)
            answers = []
            for i in range(len(state)):
                yes = parts["unet"](view[i : i + 1], moment, good[i : i + 1]).sample
                if weight > 1:
                    no = parts["unet"](view[i : i + 1], moment, bad[i : i + 1]).sample
                    yes = weight * yes + (1 - weight) * no
                answers.append(yes)
            answer = torch.cat(answers)
            try:
                state = schedule.step(answer, moment, state, generator=source).prev_sample
            except TypeError:
                state = schedule.step(answer, moment, state).prev_sample
        images = []
        for one in state:
            ready = one.unsqueeze(0) / parts["vae"].config["scaling_factor"]
            picture = parts["vae"].decode(ready).sample[0]
            picture = torch.floor((picture * 127.5 + 127.5).clamp(0, 255) + 0.5)
            images.append(picture.byte().permute(1, 2, 0))
    return torch.stack(images)


def swap_scheduler(parts, wanted):
    known = dict(parts["scheduler"].config)
    return getattr(diffusers.schedulers, wanted).from_config(known)


def img2img_timesteps(schedule, steps, share):
    do = int(steps * share)
    if do > steps:
        do = steps
    if do == 0:
        raise ValueError("the image would not change")
    schedule.set_timesteps(steps)
    first = 0
    for _ in range(steps - do):
        first += schedule.order
    try:
        begin = schedule.set_begin_index
    except AttributeError:
        begin = None
    if begin is not None:
        begin(first)
    return torch.stack([schedule.timesteps[i] for i in range(first, len(schedule.timesteps))]), do
