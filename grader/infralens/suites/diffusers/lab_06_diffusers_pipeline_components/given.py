"""What lives beside the submission: a folder to load from, components, and what they are made of.

The suite hands this file's text over and calls its functions. It holds no answers.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import diffusers
import safetensors.torch
import torch
from diffusers import AutoencoderKL, UNet2DConditionModel
from diffusers.utils import logging as diffusers_logging
from transformers import CLIPTextModel, CLIPTokenizer
from transformers.utils import logging as transformers_logging

for logging in (diffusers_logging, transformers_logging):
    logging.set_verbosity_error()  # what the libraries say is not what the learner's code prints
    logging.disable_progress_bar()

KINDS: dict[str, Any] = {
    "vae": AutoencoderKL,
    "unet": UNet2DConditionModel,
    "text_encoder": CLIPTextModel,
    "tokenizer": CLIPTokenizer,
}
EMPTY = ("safety_checker", "feature_extractor", "image_encoder")
held: list[Any] = []  # the last folder; it is removed when the next one comes
loaded: dict[str, Any] = {}  # one of each kind; only its weights change
holds: dict[str, tuple[bytes, torch.dtype]] = {}  # whose weights it has now


def folder(files: dict[str, bytes]) -> str:
    """A new folder with these files: its path."""
    for old in held:
        old.cleanup()
    held[:] = [written(files)]
    return str(held[0].name)


def written(files: dict[str, bytes]) -> tempfile.TemporaryDirectory[str]:
    """A temporary folder with these files, which are named by their paths in it."""
    place = tempfile.TemporaryDirectory(prefix="infralens-model-", ignore_cleanup_errors=True)
    for name, data in files.items():
        path = Path(place.name, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return place


def networks(
    files: dict[str, bytes], names: list[str], device: str, dtype: torch.dtype
) -> dict[str, Any]:
    """These components with the weights of this folder; networks in this dtype.

    A network is loaded once and then given other weights, so only the last ones are worth having.
    """
    return {name: network(name, files, device, dtype) for name in names}


def network(name: str, files: dict[str, bytes], device: str, dtype: torch.dtype) -> Any:
    """One of the components; the tokenizer is loaded as it is."""
    own = {path: data for path, data in files.items() if path.startswith(name + "/")}
    if name not in loaded or name == "tokenizer":  # a copy of that decodes otherwise
        with written(own) as place:
            loaded[name] = KINDS[name].from_pretrained(f"{place}/{name}")
    part = loaded[name]
    if not isinstance(part, torch.nn.Module):
        return part
    weights = next(data for path, data in own.items() if path.endswith(".safetensors"))
    part.to(device, dtype).eval().requires_grad_(False)
    if holds.get(name) != (weights, dtype):
        numbers = safetensors.torch.load(weights)
        for key, weight in part.state_dict().items():  # what load_state_dict does, in less time
            weight.copy_(numbers[key])
        holds[name] = (weights, dtype)
    return part


def scheduler(config: dict[str, Any], steps: int | None = None) -> Any:
    """The scheduler of a saved configuration; with its timesteps, if `steps` are given."""
    made = getattr(diffusers, config["_class_name"]).from_config(config)
    if steps is not None:
        made.set_timesteps(steps)
    return made


def components(files: dict[str, bytes], device: str) -> dict[str, Any]:
    """All components of the folder, in float32; those that it leaves empty are None."""
    made = scheduler(json.loads(files["scheduler/scheduler_config.json"]))
    parts = networks(files, list(KINDS), device, torch.float32)
    torch.manual_seed(0)  # what a step draws without a generator can then be told by its numbers
    return {**parts, "scheduler": made, **dict.fromkeys(EMPTY)}


def part(parts: dict[str, Any], name: str) -> Any:
    """One of the components in a dict that is kept here."""
    return parts[name]


def described(part: Any, text: str = "") -> dict[str, Any]:
    """What a component is, in values. A tokenizer shows the ids that it makes of `text`."""
    told: dict[str, Any] = {"class": type(part).__name__}
    if isinstance(part, torch.nn.Module):
        state = part.state_dict()
        kinds = {str(weight.dtype).removeprefix("torch.") for weight in state.values()}
        told |= {
            "config": plain(part.config),
            "dtypes": ", ".join(sorted(kinds)),
            "training": any(module.training for module in part.modules()),
            "state": dict(state),
        }
    elif hasattr(part, "model_max_length"):
        told |= {"length": part.model_max_length, "ids": list(part(text)["input_ids"])}
    elif hasattr(part, "timesteps"):
        told |= {
            "config": plain(part.config),
            "timesteps": part.timesteps,
            "steps": part.num_inference_steps,
            "begin": getattr(part, "begin_index", None),
        }
    return told


def plain(config: Any) -> dict[str, Any]:
    """A configuration as JSON has it, without what tells where and in which dtype it was loaded."""
    fields = config.to_dict() if hasattr(config, "to_dict") else dict(config)
    own = {name: value for name, value in fields.items() if not name.startswith("_")}
    kept: dict[str, Any] = json.loads(json.dumps(own, default=str))
    for name in ("dtype", "torch_dtype"):
        kept.pop(name, None)
    return kept
