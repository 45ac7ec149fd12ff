"""Trains the networks, stage by stage, from drawings alone.

The stages are the autoencoder, the text encoder with the UNet, the ControlNet and the LoRA. Each
keeps its state in the output folder and goes on from there when the command is given again.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import (
    AutoencoderKL,
    ControlNetModel,
    DDIMScheduler,
    StableDiffusionPipeline,
    UNet2DConditionModel,
)
from peft import LoraConfig
from peft.utils import get_peft_model_state_dict
from torch import Tensor, nn
from transformers import CLIPTextModel, CLIPTokenizer

from infralens.shapes import models
from infralens.shapes.drawing import Drawing, draw_set, edges, mislabel, paint, scatter, words
from infralens.shapes.fitting import Outcome, Schedule, fit, step_generator
from infralens.shapes.vocabulary import MAX_TOKENS, write_tokenizer

SEED = 7

VAE_PICTURES = 6_000
UNET_PICTURES = 12_000
CONTROL_PICTURES = 6_000
LORA_PICTURES = 4_000

NO_CAPTION = 0.1
"""Share of training captions replaced by the empty one, which guidance needs."""

KL_WEIGHT = 5e-4

OUTLINES_FORM = (50, 600)
"""Timesteps between 3 % and 97 % noise, as shares of the variance."""

LORA_RANK = 8
LORA_LAYERS = ["to_q", "to_k", "to_v", "to_out.0", "proj_in", "proj_out", "conv1", "conv2"]


@dataclass(frozen=True)
class Plan:
    """Steps of every stage."""

    vae: Schedule
    unet: Schedule
    controlnet: Schedule
    lora: Schedule


PLAN = Plan(
    vae=Schedule(steps=3_600, batch=32, rate=2e-3, warmup=50),
    unet=Schedule(steps=5_000, batch=64, rate=1e-3, warmup=150, ema=0.995),
    controlnet=Schedule(steps=1_500, batch=64, rate=1.2e-3, warmup=50, ema=0.98),
    lora=Schedule(steps=2_900, batch=48, rate=4e-3, warmup=30, ema=0.98),
)


@dataclass(frozen=True)
class Workshop:
    """Where a run works: scratch folder, result folders and device."""

    work: Path
    pipeline: Path
    controlnet: Path
    lora: Path
    device: torch.device
    plan: Plan

    @staticmethod
    def under(out: Path, device: torch.device, plan: Plan = PLAN) -> Workshop:
        work = out / "work"
        work.mkdir(parents=True, exist_ok=True)
        folders = (out / "pipeline", out / "controlnet", out / "lora")
        return Workshop(work, *folders, device, plan)


@dataclass(frozen=True)
class Latents:
    """Posterior of each picture, scaled: mean and standard deviation, (N, 4, 8, 8)."""

    mean: Tensor
    std: Tensor

    def draw(self, pick: Tensor, chance: torch.Generator) -> Tensor:
        noise = torch.randn(self.mean[pick].shape, generator=chance)
        return self.mean[pick] + self.std[pick] * noise.to(self.mean.device)


@dataclass(frozen=True)
class Batch:
    """One noised batch: what the denoiser sees and what it should answer."""

    noisy: Tensor
    timesteps: Tensor
    target: Tensor
    pick: Tensor


def as_tensor(drawings: list[Drawing], painter: Callable[[Drawing], object] = paint) -> Tensor:
    """Pictures as (N, 3, 32, 32) float32 between -1 and 1."""
    stacked = np.stack([np.asarray(painter(d)) for d in drawings])
    return torch.from_numpy(stacked).permute(0, 3, 1, 2).float() / 127.5 - 1.0


def paint_striped(drawing: Drawing) -> object:
    return paint(drawing, striped=True)


def train_vae(shop: Workshop) -> tuple[AutoencoderKL, Outcome]:
    """Autoencoder with mean absolute error and a light pull of the latents towards noise.

    Its shapes are scattered freely, so that it can show more than the UNet draws.

    A quarter of the pictures has striped fills: the UNet never sees those, but the LoRA needs an
    autoencoder that can show them.
    """
    torch.manual_seed(SEED)
    vae = models.build_vae().to(shop.device, memory_format=torch.channels_last)
    schedule = shop.plan.vae
    drawings = draw_set(VAE_PICTURES, seed=SEED, put=scatter)
    quarter = VAE_PICTURES // 4
    pictures = torch.cat(
        [as_tensor(drawings[quarter:]), as_tensor(drawings[:quarter], paint_striped)]
    )
    pictures = pictures.to(shop.device)

    def loss_of(step: int) -> Tensor:
        chance = step_generator(SEED, step)
        pick = torch.randint(len(pictures), (schedule.batch,), generator=chance)
        x = pictures[pick].contiguous(memory_format=torch.channels_last)
        posterior = vae.encode(x).latent_dist
        noise = torch.randn(posterior.mean.shape, generator=chance).to(shop.device)
        y = vae.decode(posterior.mean + posterior.std * noise).sample
        kl = 0.5 * (posterior.mean.square() + posterior.var - 1.0 - posterior.logvar).mean()
        loss: Tensor = (y - x).abs().mean() + KL_WEIGHT * kl
        return loss

    outcome = fit("vae", shop.work / "vae.pt", vae, schedule, loss_of)
    plain = pictures[: VAE_PICTURES - quarter]
    with torch.no_grad():
        means = torch.cat([vae.encode(part).latent_dist.mean for part in torch.split(plain, 256)])
    vae.register_to_config(scaling_factor=round(1.0 / means.std().item(), 4))
    return vae, outcome


def encode(vae: AutoencoderKL, pictures: Tensor, device: torch.device) -> Latents:
    """Latents of all pictures at once, so that no later stage pays for the encoder."""
    means, stds = [], []
    with torch.no_grad():
        for part in torch.split(pictures, 256):
            posterior = vae.encode(part.to(device)).latent_dist
            means.append(posterior.mean)
            stds.append(posterior.std)
    scale = vae.config.scaling_factor
    return Latents(torch.cat(means) * scale, torch.cat(stds) * scale)


def noised(
    latents: Latents, scheduler: DDIMScheduler, count: int, chance: torch.Generator
) -> Batch:
    """A random batch at random timesteps, with the velocity as the target."""
    device = latents.mean.device
    pick = torch.randint(len(latents.mean), (count,), generator=chance)
    x = latents.draw(pick, chance)
    noise = torch.randn(x.shape, generator=chance).to(device)
    timesteps = _timesteps(count, chance).to(device)
    noisy = scheduler.add_noise(x, noise, timesteps)
    return Batch(noisy, timesteps, scheduler.get_velocity(x, noise, timesteps), pick)


def _timesteps(count: int, chance: torch.Generator) -> Tensor:
    """Timesteps (count,), half of them from all and half from the range where outlines form.

    Within each half there is one from each of equal slices: the loss is less noisy than with free
    draws.
    """
    halves = []
    for low, high, n in ((0, 1000, count - count // 2), (*OUTLINES_FORM, count // 2)):
        slices = (torch.arange(n) + torch.rand(n, generator=chance)) / n
        halves.append((low + slices * (high - low)).long().clamp(max=high - 1))
    return torch.cat(halves)


def captions(drawings: list[Drawing], pick: Tensor, seed: int, step: int) -> list[str]:
    """A caption for each picked drawing; some are empty and some partly wrong."""
    rng = random.Random(seed * 1_000_003 + step)
    return [
        "" if rng.random() < NO_CAPTION else words(mislabel(drawings[i].combination, rng), rng)
        for i in pick.tolist()
    ]


def token_ids(tokenizer: CLIPTokenizer, texts: list[str], device: torch.device) -> Tensor:
    """Token ids (N, 24), padded and cut as the pipeline does."""
    encoded = tokenizer(texts, padding="max_length", truncation=True, max_length=MAX_TOKENS)
    return torch.tensor(encoded["input_ids"], device=device)


def train_unet(
    shop: Workshop,
    vae: AutoencoderKL,
    tokenizer: CLIPTokenizer,
    report: Callable[[StableDiffusionPipeline, int], None] | None = None,
) -> tuple[CLIPTextModel, UNet2DConditionModel, Outcome]:
    """Text encoder and UNet together, on cached latents."""
    torch.manual_seed(SEED + 1)
    text = models.build_text_encoder(tokenizer).to(shop.device)
    unet = models.build_unet().to(shop.device, memory_format=torch.channels_last)
    schedule, scheduler = shop.plan.unet, models.build_scheduler()
    drawings = draw_set(UNET_PICTURES, seed=SEED + 1)
    latents = encode(vae, as_tensor(drawings), shop.device)

    def loss_of(step: int) -> Tensor:
        chance = step_generator(SEED + 1, step)
        batch = noised(latents, scheduler, schedule.batch, chance)
        ids = token_ids(tokenizer, captions(drawings, batch.pick, SEED + 1, step), shop.device)
        states = text(ids).last_hidden_state
        guess = unet(batch.noisy, batch.timesteps, states).sample
        return nn.functional.mse_loss(guess, batch.target)

    def on_interval(step: int) -> None:
        if report is not None:
            report(assemble(vae, text, unet, tokenizer), step)

    both = nn.ModuleDict({"text": text, "unet": unet})
    outcome = fit(
        "text+unet",
        shop.work / "unet.pt",
        both,
        schedule,
        loss_of,
        on_interval=on_interval,
        interval=500,
    )
    return text, unet, outcome


def train_controlnet(
    shop: Workshop, pipe: StableDiffusionPipeline
) -> tuple[ControlNetModel, Outcome]:
    """ControlNet on edge maps; the pipeline itself stays as it is."""
    torch.manual_seed(SEED + 2)
    controlnet = models.build_controlnet(pipe.unet)
    controlnet = controlnet.to(shop.device, memory_format=torch.channels_last)
    schedule, scheduler = shop.plan.controlnet, models.build_scheduler()
    drawings = draw_set(CONTROL_PICTURES, seed=SEED + 2)
    latents = encode(pipe.vae, as_tensor(drawings), shop.device)
    controls = (as_tensor(drawings, edges) + 1.0) / 2.0
    pipe.unet.requires_grad_(False)

    def loss_of(step: int) -> Tensor:
        chance = step_generator(SEED + 2, step)
        batch = noised(latents, scheduler, schedule.batch, chance)
        texts = captions(drawings, batch.pick, SEED + 2, step)
        with torch.no_grad():
            states = pipe.text_encoder(
                token_ids(pipe.tokenizer, texts, shop.device)
            ).last_hidden_state
        down, middle = controlnet(
            batch.noisy,
            batch.timesteps,
            states,
            controls[batch.pick].to(shop.device),
            return_dict=False,
        )
        guess = pipe.unet(
            batch.noisy,
            batch.timesteps,
            states,
            down_block_additional_residuals=down,
            mid_block_additional_residual=middle,
        ).sample
        return nn.functional.mse_loss(guess, batch.target)

    outcome = fit("controlnet", shop.work / "controlnet.pt", controlnet, schedule, loss_of)
    return controlnet, outcome


def train_lora(shop: Workshop, pipe: StableDiffusionPipeline) -> tuple[dict[str, Tensor], Outcome]:
    """Low-rank adapter on striped drawings whose captions do not mention stripes."""
    torch.manual_seed(SEED + 3)
    unet = pipe.unet
    unet.requires_grad_(False)
    unet.add_adapter(
        LoraConfig(
            r=LORA_RANK,
            lora_alpha=LORA_RANK,
            init_lora_weights="gaussian",
            target_modules=LORA_LAYERS,
        )
    )
    schedule, scheduler = shop.plan.lora, models.build_scheduler()
    drawings = draw_set(LORA_PICTURES, seed=SEED + 3)
    latents = encode(pipe.vae, as_tensor(drawings, paint_striped), shop.device)

    def loss_of(step: int) -> Tensor:
        chance = step_generator(SEED + 3, step)
        batch = noised(latents, scheduler, schedule.batch, chance)
        texts = captions(drawings, batch.pick, SEED + 3, step)
        with torch.no_grad():
            states = pipe.text_encoder(
                token_ids(pipe.tokenizer, texts, shop.device)
            ).last_hidden_state
        guess = unet(batch.noisy, batch.timesteps, states).sample
        return nn.functional.mse_loss(guess, batch.target)

    trained = [p for p in unet.parameters() if p.requires_grad]
    outcome = fit("lora", shop.work / "lora.pt", unet, schedule, loss_of, trained=trained)
    # peft's keys as they are: converted ones would mix two spellings, and of such a file
    # load_lora_weights reads one.
    return get_peft_model_state_dict(unet), outcome


def assemble(
    vae: AutoencoderKL,
    text: CLIPTextModel,
    unet: UNet2DConditionModel,
    tokenizer: CLIPTokenizer,
) -> StableDiffusionPipeline:
    pipe = StableDiffusionPipeline(
        vae=vae,
        text_encoder=text,
        tokenizer=tokenizer,
        unet=unet,
        scheduler=models.build_scheduler(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    pipe.set_progress_bar_config(disable=True)
    return pipe


def train(
    shop: Workshop, report: Callable[[StableDiffusionPipeline, int], None] | None = None
) -> dict[str, Outcome]:
    """All stages, then the three folders in diffusers format, float16."""
    tokenizer_folder = shop.pipeline / "tokenizer"
    write_tokenizer(tokenizer_folder)
    tokenizer = models.load_tokenizer(tokenizer_folder)
    took: dict[str, Outcome] = {}
    vae, took["vae"] = train_vae(shop)
    vae.requires_grad_(False)
    text, unet, took["text+unet"] = train_unet(shop, vae, tokenizer, report)
    text.requires_grad_(False)
    pipe = assemble(vae, text, unet, tokenizer)
    export_pipeline(pipe, shop.pipeline)
    controlnet, took["controlnet"] = train_controlnet(shop, pipe)
    export_half(controlnet, shop.controlnet)
    # Last, because the adapter stays in the UNet.
    lora, took["lora"] = train_lora(shop, pipe)
    shop.lora.mkdir(parents=True, exist_ok=True)
    StableDiffusionPipeline.save_lora_weights(
        shop.lora,
        unet_lora_layers={name: weight.half().contiguous() for name, weight in lora.items()},
    )
    _readable(shop.lora)
    figures = {name: asdict(outcome) for name, outcome in took.items()}
    (shop.work / "training.json").write_text(json.dumps(figures, indent=1) + "\n")
    return took


def export_half(module: Any, folder: Path) -> None:
    """Save a diffusers or transformers module as float16 and leave it in float32."""
    module.half()
    module.save_pretrained(folder)
    module.float()
    _readable(folder)


def _readable(folder: Path) -> None:
    """Let everybody read the weights; safetensors files are written for their owner alone."""
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(0o644)


def export_pipeline(pipe: StableDiffusionPipeline, folder: Path) -> None:
    """Save the pipeline with its tokenizer's own vocabulary and merges files."""
    for module in (pipe.vae, pipe.text_encoder, pipe.unet):
        module.half()
    pipe.save_pretrained(folder)
    for module in (pipe.vae, pipe.text_encoder, pipe.unet):
        module.float()
    shutil.rmtree(folder / "tokenizer")
    write_tokenizer(folder / "tokenizer")
    _readable(folder)
    # transformers loads a model in the type its configuration names; the UNet and the
    # autoencoder load in float32 from the same float16 files, and all parts have to agree.
    config = folder / "text_encoder" / "config.json"
    text = json.loads(config.read_text())
    text["dtype"] = "float32"
    config.write_text(json.dumps(text, indent=2, sort_keys=True) + "\n")
