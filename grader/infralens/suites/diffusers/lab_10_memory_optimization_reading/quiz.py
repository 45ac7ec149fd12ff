"""Lab 10: the checkpoints of the page, answered by diffusers, accelerate and the kit's weights."""

from __future__ import annotations

import math

import torch
from diffusers import DDPMPipeline, DDPMScheduler
from diffusers.models.attention_processor import SlicedAttnProcessor
from safetensors import safe_open

from infralens import shapes
from infralens.quiz import question
from infralens.suites.diffusers.lab_10_memory_optimization_reading import parts

RAISES = "it raises a ValueError"


@question(
    "Two pictures, five heads, SlicedAttnProcessor(4): how many slices are there, the last one "
    "included?"
)
def slices() -> int:
    """3. There are 2·5 = 10 maps of scores: 4, 4 and 2. Rounding 10 / 4 down would lose the last
    two heads of the second picture."""
    q = k = v = torch.zeros(2, 5, 3, 2)
    with parts.Made() as made:
        parts.attention(SlicedAttnProcessor(4), q, k, v)
    return len(made.by("softmax"))


@question(
    "AutoencoderKL.tiled_decode in diffusers 0.42.1: latents of 20 × 28, a VAE that doubles the "
    "sides, tiles of 12 whose tile_overlap_factor is 5/12. Height and width of the picture?"
)
def truncated() -> tuple[int, ...]:
    """46, 64 in place of 40, 56: int(12·(1 − 5/12)) is 6, since the product is 6.999… in floats,
    and what is kept of each tile no longer fits the stride."""
    vae = parts.autoencoder("tiny")
    latents = torch.zeros(1, vae.config.latent_channels, 20, 28)
    picture, _ = parts.tiled_by_library(vae, latents, 12, 5)
    return tuple(picture.shape[-2:])


@question(
    "Model offload, chain text_encoder->unet->vae, weights of 50, 90 and 30 MB. Image to image "
    "calls vae, text_encoder, unet, unet, vae. How many MB are on the device at the peak?"
)
def image_to_image() -> int:
    """120. The VAE is called first, and only a call of what follows it in the chain would send it
    back: nothing follows it. It stays through the UNet's steps, 90 + 30."""
    sizes = {"text_encoder": [50], "unet": [90], "vae": [30]}
    calls = ["vae", "text_encoder", "unet", "unet", "vae"]
    return parts.model_offload(sizes, "text_encoder->unet->vae", calls).peak


@question(
    'enable_sequential_cpu_offload was called. What does pipe.to("cuda") do then?',
    choices=[
        RAISES,
        "it moves all weights to the device",
        "it moves the weights of the first component",
        "nothing",
    ],
)
def to_after_offload() -> str:
    """It raises: weights that travel by themselves must not be moved by hand. After
    enable_model_cpu_offload it only warns, and undoes what offload had saved."""
    pipe = DDPMPipeline(parts.new_unet(), DDPMScheduler())
    pipe.enable_sequential_cpu_offload(device="cpu")
    try:
        pipe.to("cuda")
    except ValueError:
        return RAISES
    return "nothing"


@question(
    "A UNet as it is loaded is called once, without torch.no_grad(). Are there tensors from inside "
    "it that stay alive as long as its result?"
)
def kept_for_autograd() -> bool:
    """Yes: everything that a backward pass would need. Pipelines run under torch.no_grad(); a loop
    of your own has to say so itself."""
    kept: list[int] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor.numel())
        return tensor

    unet = parts.new_unet()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        unet(torch.zeros(1, 4, 8, 8), torch.tensor(50), torch.zeros(1, 5, 24))
    return bool(kept)


@question(
    'How many million bytes do the weights of the kit\'s UNet (shapes.FOLDER / "unet") take on a '
    "device in float16?"
)
def unet_in_half() -> float:
    """Two bytes for each of its 3.2 million parameters: 6.4. A single map of scores over 4096
    tokens, in the same dtype, takes 33.6."""
    file = shapes.FOLDER / "unet" / "diffusion_pytorch_model.safetensors"
    with safe_open(file, "pt") as weights:
        names = list(weights.keys())
        count = sum(math.prod(weights.get_slice(name).get_shape()) for name in names)
    return float(2 * count / 1e6)
