"""Lab 07: the checkpoints of the page, answered by the live library."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from diffusers import DiTTransformer2DModel, FluxTransformer2DModel, UNet2DConditionModel
from diffusers.models.attention import BasicTransformerBlock

from infralens.quiz import question


def unet(channels: tuple[int, ...], heads: int, layers: int) -> Any:
    """A UNet2DConditionModel without numbers in it: only its structure is looked at."""
    with torch.device("meta"):
        return UNet2DConditionModel(
            block_out_channels=channels,
            layers_per_block=layers,
            down_block_types=("CrossAttnDownBlock2D",) * len(channels),
            up_block_types=("CrossAttnUpBlock2D",) * len(channels),
            cross_attention_dim=8,
            attention_head_dim=heads,
        )


@question(
    "Stable Diffusion 1.5's UNet has `attention_head_dim` 8, and its first level has 320 channels. "
    "How many channels does one head of that level have?"
)
def channels_of_a_head() -> int:
    """40. In UNet2DConditionModel the field called attention_head_dim is the *number* of heads, a
    slip that too many saved configs rely on, so 320 / 8 = 40."""
    attention = unet((320,), heads=8, layers=1).down_blocks[0].attentions[0]
    layer = attention.transformer_blocks[0].attn1
    return int(layer.to_q.out_features // layer.heads)


@question(
    "A UNet2DConditionModel has four levels and `layers_per_block` 2, as Stable Diffusion's. How "
    "many skips has its way down collected when the way up begins?"
)
def number_of_skips() -> int:
    """12: the output of conv_in, two a level from the resnets (with attention), and one from each
    of the three downsamplers. The way up has 4·3 resnets and uses one each."""
    library = unet((32, 32, 32, 32), heads=4, layers=2)
    return sum(len(block.resnets) for block in library.up_blocks)


@question(
    "In a DiT block `norm1.linear` has weight 0 and bias 0, as at the start of training. Does the "
    "block change the hidden states?"
)
def changed_by_a_new_block() -> bool:
    """No. Both gates are 0, so nothing is added to the residual stream: the block is the identity,
    whatever the attention's and the MLP's weights are. That is the Zero in adaLN-Zero."""
    block = BasicTransformerBlock(
        8, 2, 4, norm_type="ada_norm_zero", num_embeds_ada_norm=10, norm_elementwise_affine=False
    ).eval()
    torch.nn.init.zeros_(block.norm1.linear.weight)
    torch.nn.init.zeros_(block.norm1.linear.bias)
    hidden, index = torch.randn(2, 5, 8), torch.tensor([3, 7])
    with torch.no_grad():
        return not torch.equal(block(hidden, timestep=index, class_labels=index), hidden)


@question(
    "`DiTTransformer2DModel` with patch size 2 is given latents 4 high and 16 wide (diffusers "
    "0.42.1). How high and how wide is its output? (Two numbers.)"
)
def square_in_silence() -> tuple[int, ...]:
    """8 and 8. There are 2·8 = 16 tokens, and the model puts them together as √16 × √16 patches: a
    square of the wrong latents, without an error. 6 × 10 latents, 15 tokens, do raise one."""
    model = DiTTransformer2DModel(
        num_attention_heads=1, attention_head_dim=8, num_layers=1, sample_size=8, patch_size=2
    ).eval()
    index = torch.zeros(1, dtype=torch.long)
    with torch.no_grad():
        output = model(torch.zeros(1, 4, 4, 16), timestep=index, class_labels=index).sample
    return tuple(output.shape[2:])


@question(
    "Stable Diffusion XL is asked for a target of 1024 × 1024, cut out of an original 768 high and "
    "1344 wide, from row 0 and column 32 on. Which is the fourth of the six numbers?"
)
def fourth_time_id() -> int:
    """32: original height and width, crop top and left, target height and width. The crop's left
    edge is the fourth."""
    from diffusers import StableDiffusionXLPipeline  # imports transformers, which takes seconds

    library = SimpleNamespace(
        config=SimpleNamespace(addition_time_embed_dim=4),
        add_embedding=SimpleNamespace(linear_1=SimpleNamespace(in_features=6 * 4)),
    )
    time_ids = StableDiffusionXLPipeline._get_add_time_ids(
        SimpleNamespace(unet=library), (768, 1344), (0, 32), (1024, 1024), torch.float32, 0
    )
    return int(time_ids[0, 3])


@question(
    "A Flux model is to be guided at 3.5. Which number goes into the `guidance` of "
    "`FluxTransformer2DModel.forward`?"
)
def flux_guidance() -> float:
    """3.5. The model multiplies it by 1000 itself before embedding it like a timestep; whoever
    multiplies first asks for a guidance of 3500."""
    model = FluxTransformer2DModel(
        in_channels=4,
        num_layers=1,
        num_single_layers=0,
        attention_head_dim=16,
        num_attention_heads=1,
        joint_attention_dim=8,
        pooled_projection_dim=8,
        guidance_embeds=True,
        axes_dims_rope=(4, 6, 6),
    ).eval()
    seen: list[float] = []
    model.time_text_embed.register_forward_pre_hook(lambda _, given: seen.append(float(given[1])))
    with torch.no_grad():
        model(
            hidden_states=torch.zeros(1, 4, 4),
            encoder_hidden_states=torch.zeros(1, 3, 8),
            pooled_projections=torch.zeros(1, 8),
            timestep=torch.tensor([0.5]),
            guidance=torch.tensor([3.5]),
            img_ids=torch.zeros(4, 3),
            txt_ids=torch.zeros(3, 3),
        )
    return 3500 / (seen[0] / 3.5)  # 3500 is what was embedded in training
