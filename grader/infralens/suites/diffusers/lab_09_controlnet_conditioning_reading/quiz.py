"""Lab 09: the checkpoints of the page, answered by diffusers and by the kit's own ControlNet."""

from __future__ import annotations

import torch
from diffusers import ControlNetModel, HeunDiscreteScheduler, MultiControlNetModel
from safetensors import safe_open

from infralens import shapes
from infralens.quiz import question
from infralens.suites.diffusers.lab_09_controlnet_conditioning_reading import nets


@question(
    "A ControlNet for Stable Diffusion 1.5 (four levels, `layers_per_block` 2): how many residuals "
    "does it give, the mid residual included?"
)
def residuals_of_stable_diffusion() -> int:
    """13: conv_in's, two a level from the resnets, one from each of three downsamplers, and the
    middle block's."""
    with torch.device("meta"):
        controlnet = ControlNetModel()  # its defaults are those of Stable Diffusion
    return len(nets.zero_convs(controlnet))


@question(
    "How many zero convolutions does the kit's ControlNet (shapes.CONTROLNET_FOLDER) have whose "
    "weights are still zero?"
)
def still_zero() -> int:
    """0: training has moved every one of them. They are called after their beginning."""
    folder = shapes.CONTROLNET_FOLDER / "diffusion_pytorch_model.safetensors"
    with safe_open(folder, "pt") as weights:
        zeros = [
            name
            for name in weights.keys()  # noqa: SIM118  # no mapping
            if name.startswith(("controlnet_down_blocks", "controlnet_mid_block"))
            and name.endswith("weight")
        ]
        return sum(not bool(weights.get_tensor(name).any()) for name in zeros)


@question(
    "Ten steps with `HeunDiscreteScheduler`, control_guidance_start 0.25, control_guidance_end "
    "0.75: at how many iterations is the conditioning scale not 0?"
)
def turns_with_heun() -> int:
    """9. Heun makes 2·10 − 1 = 19 iterations. Those from 5 to 13 lie whole between a quarter
    and three quarters of them: 5/19 = 0.263 and 14/19 = 0.737."""
    scales = nets.scales_of_a_run(HeunDiscreteScheduler(), 10, 0.25, 0.75)
    return sum(scale != 0 for scale in scales)


@question(
    "StableDiffusionControlNetPipeline, two prompts, guidance_scale 7.5, guess mode: how many rows "
    "does the ControlNet see in one call?"
)
def rows_in_guess_mode() -> int:
    """2. Only the conditional half is asked about; the UNet sees 4 rows, and the residuals of the
    first two are zeros."""
    embeds = torch.zeros(2, 5, 24)
    run = nets.run_of(
        nets.pair("tiny"),
        nets.one_turn(torch.tensor(50)),
        prompts=embeds,
        negatives=embeds,
        latents=torch.zeros(2, nets.LATENT_CHANNELS, 4, 4),
        image=torch.zeros(2, 3, 8, 8),
        num_inference_steps=1,
        guess_mode=True,
    )
    return len(run.controlnet_calls[0][0])


@question(
    "In guess mode a ControlNet with 4 down residuals (as the kit's) is used at conditioning scale "
    "1. By what is its third down residual multiplied?"
)
def third_scale() -> float:
    """10^(−1 + 2/4) = 0.316. The five scales 0.1, 0.178, 0.316, 0.562, 1 have one ratio, and the
    last is the mid residual's."""
    controlnet, inputs = nets.tiny_controlnet(), nets.zero_inputs(nets.pair("tiny"))
    plain, _ = nets.asked(controlnet, inputs)
    guessed, _ = nets.asked(controlnet, inputs, guess=True)
    return float((guessed[2] / plain[2]).median())


@question(
    "A MultiControlNetModel of two ControlNets is given two images and conditioning_scale=[1.0] "
    "(diffusers 0.42.1). How many of the two are asked?"
)
def asked_with_one_scale() -> int:
    """1. forward zips images, scales and networks, and zip stops at the shortest. Todo 9.6 wants an
    error there."""
    networks = [nets.tiny_controlnet(number) for number in range(2)]
    asked: list[int] = []
    hooks = [
        network.register_forward_pre_hook(lambda *_, number=number: asked.append(number))
        for number, network in enumerate(networks)
    ]
    inputs = nets.zero_inputs(nets.pair("tiny"))
    together = inputs._replace(image=[inputs.image] * 2)  # type: ignore[arg-type]  # a list of them
    try:
        nets.asked(MultiControlNetModel(networks), together, [1.0])
    finally:
        for hook in hooks:
            hook.remove()
    return len(asked)
