"""The networks of the pipeline and their sizes. Imports torch: import it only when needed."""

from __future__ import annotations

from pathlib import Path

from diffusers import (
    AutoencoderKL,
    ControlNetModel,
    DDIMScheduler,
    UNet2DConditionModel,
)
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

from infralens.shapes.drawing import PICTURE
from infralens.shapes.vocabulary import MAX_TOKENS

LATENT_FACTOR = 4
"""Pixels per latent along one side."""

LATENT = PICTURE // LATENT_FACTOR
"""Width and height of the latents."""

UNET_WIDTHS = (56, 112)
"""Small enough that a ControlNet with the same widths stays under 2 MB in float16."""

TEXT_WIDTH = 64
NORM_GROUPS = 8


def build_vae() -> AutoencoderKL:
    """Autoencoder (N, 3, 32, 32) <-> (N, 4, 8, 8); 0.2 M parameters."""
    return AutoencoderKL(
        in_channels=3,
        out_channels=3,
        down_block_types=("DownEncoderBlock2D",) * 3,
        up_block_types=("UpDecoderBlock2D",) * 3,
        block_out_channels=(16, 32, 32),
        layers_per_block=1,
        latent_channels=4,
        norm_num_groups=NORM_GROUPS,
        sample_size=PICTURE,
        mid_block_add_attention=False,
    )


def build_text_encoder(tokenizer: CLIPTokenizer) -> CLIPTextModel:
    """Transformer over (N, 24) token ids giving (N, 24, 64) states."""
    return CLIPTextModel(
        CLIPTextConfig(
            vocab_size=len(tokenizer),
            hidden_size=TEXT_WIDTH,
            intermediate_size=4 * TEXT_WIDTH,
            num_hidden_layers=2,
            num_attention_heads=4,
            max_position_embeddings=MAX_TOKENS,
            projection_dim=TEXT_WIDTH,
            hidden_act="quick_gelu",
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def build_unet() -> UNet2DConditionModel:
    """Denoiser on (N, 4, 8, 8) latents with cross attention in both levels."""
    return UNet2DConditionModel(
        sample_size=LATENT,
        in_channels=4,
        out_channels=4,
        layers_per_block=1,
        block_out_channels=UNET_WIDTHS,
        down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=TEXT_WIDTH,
        # diffusers reads this number as the count of heads, whatever its name says.
        attention_head_dim=2,
        norm_num_groups=NORM_GROUPS,
    )


def build_scheduler() -> DDIMScheduler:
    """v-prediction on a linear schedule that ends in almost pure noise.

    The usual Stable Diffusion betas leave 7 % of the signal in the last step. On pictures with a
    plain background that is enough to give the background away during training, and wrong
    backgrounds follow when sampling starts from noise alone.
    """
    return DDIMScheduler(
        num_train_timesteps=1000,
        beta_start=1e-4,
        beta_end=0.02,
        beta_schedule="linear",
        prediction_type="v_prediction",
        timestep_spacing="trailing",
        clip_sample=False,
        set_alpha_to_one=True,
        steps_offset=0,
    )


def build_controlnet(unet: UNet2DConditionModel) -> ControlNetModel:
    """Edge map (N, 3, 32, 32) to residuals for `unet`'s skips and middle block.

    A full copy of the UNet's encoder would pass 2 MB. This one leaves out the attention layers:
    the words still reach the UNet itself, the control only has to say where the outline runs. The
    layers both have are copied from the UNet.
    """
    controlnet = ControlNetModel(
        in_channels=4,
        conditioning_channels=3,
        layers_per_block=1,
        block_out_channels=UNET_WIDTHS,
        down_block_types=("DownBlock2D", "DownBlock2D"),
        mid_block_type="UNetMidBlock2D",
        cross_attention_dim=TEXT_WIDTH,
        attention_head_dim=2,
        norm_num_groups=NORM_GROUPS,
        conditioning_embedding_out_channels=(32, 64, 96),
    )
    known = unet.state_dict()
    own = controlnet.state_dict()
    own.update({k: v for k, v in known.items() if k in own and own[k].shape == v.shape})
    controlnet.load_state_dict(own)
    return controlnet


def load_tokenizer(folder: Path) -> CLIPTokenizer:
    return CLIPTokenizer.from_pretrained(folder)
