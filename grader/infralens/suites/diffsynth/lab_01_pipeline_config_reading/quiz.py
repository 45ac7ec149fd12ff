"""Lab 01 of diffsynth: the reading checkpoints, answered by diffusers."""

from __future__ import annotations

import tempfile

import torch
from diffusers import AutoencoderKLWan, DDIMScheduler, EulerDiscreteScheduler

from infralens.quiz import question
from infralens.suites import configs as live

SPACINGS = ("leading", "linspace", "trailing")


@question(
    "EulerDiscreteScheduler.from_config(DDIMScheduler().config): which timestep_spacing does it "
    "have?",
    choices=SPACINGS,
)
def spacing_in_memory() -> str:
    """DDIM's leading was its class's default, and the config in memory says so in
    _use_default_values. Euler takes its own default."""
    return str(EulerDiscreteScheduler.from_config(DDIMScheduler().config).config.timestep_spacing)


@question(
    "The same after DDIMScheduler().save_pretrained and EulerDiscreteScheduler.from_pretrained: "
    "which one now?",
    choices=SPACINGS,
)
def spacing_saved() -> str:
    """The file has every field written out and no list of defaults: DDIM's leading counts as
    said."""
    with tempfile.TemporaryDirectory(prefix="infralens-") as folder:
        DDIMScheduler().save_pretrained(folder)
        return str(EulerDiscreteScheduler.from_pretrained(folder).config.timestep_spacing)


@question(
    "FluxTransformer2DModel with a VAE of 16 channels and a factor of 8, packed 2 × 2, at "
    "1024 × 1024: how many picture tokens?"
)
def tokens_of_flux() -> int:
    """1024 / 8 / 2 = 64 each way."""
    vae = live.kl(4, 16)
    flux = live.DENOISERS["FluxTransformer2DModel"](in_channels=64)
    return live.tokens(vae, flux, 1024, 1024, 1)


@question(
    "AutoencoderKLWan and WanTransformer3DModel with their defaults, 81 frames of 480 × 832: how "
    "many picture tokens?"
)
def tokens_of_wan() -> int:
    """21 latent frames of 60 × 104 latent pixels, in patches of 1 × 2 × 2: 21 · 30 · 52."""
    with live.META, torch.no_grad():
        latents = AutoencoderKLWan(base_dim=4).encode(torch.empty(1, 3, 81, 480, 832)).latent_dist
        _, _, frames, height, width = latents.mean.shape
    time, rows, columns = live.parameters_of("WanTransformer3DModel")["patch_size"]
    return int(frames // time * (height // rows) * (width // columns))


@question(
    "WanImageToVideoPipeline with a VAE of 16 channels that halves time twice: how many "
    "in_channels does its transformer need?"
)
def channels_of_image_to_video() -> int:
    """Noise 16, mask 4, the first frame 16."""
    vae = live.parameters_of("AutoencoderKLWan")
    noise, mask = vae["z_dim"], 2 ** sum(vae["temperal_downsample"])
    return int(noise + mask + noise)


@question(
    'from_pretrained(folder, dtype={"unet": torch.float16}): in which dtype is the VAE?',
    choices=("float16", "float32", "as its file has it"),
)
def dtype_of_the_unnamed() -> str:
    """What the dict does not name gets "default", and without that float32."""
    folder = live.Folder("fp16", ("unet",))
    return str(folder.loaded({"unet": "float16"}, None)["vae"][0])


@question(
    "SD3 whose transformer has one channel more than the VAE, in and out: what does a call with "
    "decoding raise, and where?",
    choices=(
        "ValueError, before the loop",
        "RuntimeError, in the transformer",
        "RuntimeError, in the VAE",
        "nothing: it runs",
    ),
)
def where_it_fails() -> str:
    """The latents are drawn with the transformer's channels, so the whole loop runs. Only the VAE's
    first convolution finds one channel too many."""
    return live.place_of_failure("StableDiffusion3Pipeline")
