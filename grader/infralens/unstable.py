"""Names of other libraries that may change without notice, and why the kit leans on them.

Private names, what a library calls experimental, and methods that are called with a stand-in for
`self`, which has no more than they ask for today. A suite that lacks one fails in the middle of a
grade; `infralens doctor` looks for all of them before, without importing the libraries.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import distributions
from pathlib import Path
from typing import TypeGuard

from packaging.version import Version

from infralens.library_source import NoSourceError, module_file


@dataclass(frozen=True)
class Unstable:
    """A name, from the package on, of the class or module that defines it; and why it is used.

    Of a release before `since`, which has it not yet, it is not asked.
    """

    name: str
    why: str
    since: str = ""

    @property
    def package(self) -> str:
        return self.name.partition(".")[0]

    @property
    def compiled(self) -> bool:
        """Whether only torch itself can tell: a part of it is no Python."""
        return self.package == "torch"


FLUX = "diffusers.pipelines.flux.pipeline_flux"
FLUX_FROM_IMAGE = "diffusers.pipelines.flux.pipeline_flux_img2img.FluxImg2ImgPipeline"
SD = "diffusers.pipelines.stable_diffusion"
SD3_FROM_IMAGE = (
    "diffusers.pipelines.stable_diffusion_3.pipeline_stable_diffusion_3_img2img"
    ".StableDiffusion3Img2ImgPipeline"
)
SD3 = "diffusers.pipelines.stable_diffusion_3.pipeline_stable_diffusion_3.StableDiffusion3Pipeline"
QWEN = "diffusers.pipelines.qwenimage.pipeline_qwenimage.QwenImagePipeline"
LTX = "diffusers.pipelines.ltx.pipeline_ltx.LTXPipeline"
FLUX2 = "diffusers.pipelines.flux2.pipeline_flux2.Flux2Pipeline"
SDXL = "diffusers.pipelines.stable_diffusion_xl"
CONTROLNET = "diffusers.pipelines.controlnet.pipeline_controlnet.StableDiffusionControlNetPipeline"
GUIDANCE = "diffusers.guiders.classifier_free_guidance.ClassifierFreeGuidance"
MODULAR = "diffusers.modular_pipelines"
GGUF = "diffusers.quantizers.gguf.utils"

UNSTABLE = (
    # Schedulers
    Unstable(
        "diffusers.schedulers.scheduling_ddim.DDIMScheduler._threshold_sample",
        "lab 02 grades dynamic thresholding alone; `step` does it amid other things",
    ),
    Unstable(
        "diffusers.schedulers.scheduling_ddpm.DDPMScheduler._threshold_sample",
        "the same of DDPM",
    ),
    Unstable(
        "diffusers.schedulers.scheduling_ddpm.DDPMScheduler._get_variance",
        "lab 02 grades a learned variance, of which `step` shows only a draw; "
        "diffsynth/lab-10 breaks a run off inside a step",
    ),
    # Pipelines, of which a check wants one part and not the run
    Unstable(f"{FLUX}.FluxPipeline._pack_latents", "lab 05 grades packing alone"),
    Unstable(f"{FLUX}.FluxPipeline._unpack_latents", "lab 05 grades unpacking alone"),
    Unstable(f"{FLUX}.calculate_shift", "lab 03 reads it out of the file, without the imports"),
    Unstable(
        f"{FLUX_FROM_IMAGE}._encode_vae_image", "lab 05: Flux' latents of an image, of a stand-in"
    ),
    Unstable(
        f"{SDXL}.pipeline_stable_diffusion_xl_img2img"
        ".StableDiffusionXLImg2ImgPipeline.prepare_latents",
        "lab 05: latents of an image with a mean for each channel, of a stand-in",
    ),
    Unstable(
        f"{SDXL}.pipeline_stable_diffusion_xl.StableDiffusionXLPipeline._get_add_time_ids",
        "lab 07 reads it out of the file and calls it with a stand-in",
    ),
    Unstable(
        f"{SD}.pipeline_stable_diffusion.StableDiffusionPipeline.prepare_latents",
        "lab 06: latents of any size, of a stand-in",
    ),
    Unstable(
        f"{SD}.pipeline_stable_diffusion.StableDiffusionPipeline._interrupt",
        "diffsynth/lab-04 stops the library's loop, as its callback may",
    ),
    Unstable(
        f"{SD}.pipeline_stable_diffusion.rescale_noise_cfg",
        "lab 04 reads it out of the file, without the imports",
    ),
    Unstable(
        f"{SD}.pipeline_stable_diffusion_img2img.StableDiffusionImg2ImgPipeline.get_timesteps",
        "lab 06: where a run from an image begins, of a stand-in",
    ),
    Unstable(
        f"{SD3_FROM_IMAGE}.get_timesteps",
        "a question of diffsynth/lab-04 asks it, of a stand-in",
    ),
    Unstable(
        f"{CONTROLNET}.prepare_image",
        "lab 09 reads it out of the file, and calls it with a stand-in",
    ),
    Unstable(f"{LTX}._pack_latents", "diffsynth/lab-03 grades packing in three axes alone"),
    Unstable(f"{LTX}._unpack_latents", "diffsynth/lab-03 grades unpacking alone"),
    Unstable(
        "diffusers.pipelines.animatediff.pipeline_animatediff.AnimateDiffPipeline.decode_latents",
        "diffsynth/lab-03: a layout that an image VAE is given, of a stand-in",
    ),
    Unstable(
        "diffusers.pipelines.cogvideo.pipeline_cogvideox.CogVideoXPipeline.decode_latents",
        "diffsynth/lab-03: a layout that a video VAE is given, of a stand-in",
    ),
    Unstable(
        f"{SDXL}.pipeline_stable_diffusion_xl.StableDiffusionXLPipeline.encode_prompt",
        "diffsynth/lab-05: states of two encoders and the negative side, of a stand-in",
    ),
    Unstable(f"{SD3}._get_clip_prompt_embeds", "diffsynth/lab-05: CLIP's half, of a stand-in"),
    Unstable(f"{SD3}._get_t5_prompt_embeds", "diffsynth/lab-05: T5's half, of a stand-in"),
    Unstable(
        "diffusers.pipelines.wan.pipeline_wan.WanPipeline._get_t5_prompt_embeds",
        "diffsynth/lab-05: what is zeroed behind the encoder, of a stand-in",
    ),
    Unstable(
        f"{QWEN}._get_qwen_prompt_embeds",
        "diffsynth/lab-05: what is left of a prompt in a template, of a stand-in",
    ),
    Unstable(f"{QWEN}._extract_masked_hidden", "diffsynth/lab-05: which the former calls"),
    Unstable(
        "diffusers.pipelines.qwenimage.pipeline_qwenimage_edit.calculate_dimensions",
        "diffsynth/lab-03 reads it out of the file, without the imports",
    ),
    Unstable(f"{LTX}._normalize_latents", "diffsynth/lab-07 grades the constants alone"),
    Unstable(f"{LTX}._denormalize_latents", "diffsynth/lab-07: the same, the way back"),
    Unstable(
        f"{FLUX2}._encode_vae_image",
        "diffsynth/lab-07: Flux 2's latents of an image, of a stand-in",
    ),
    Unstable(f"{FLUX2}._patchify_latents", "which that stand-in folds with"),
    Unstable(
        "diffusers.pipelines.wan.pipeline_wan_i2v.WanImageToVideoPipeline.prepare_latents",
        "diffsynth/lab-07: Wan's latents of an image, of a stand-in",
    ),
    Unstable(
        "diffusers.pipelines.cogvideo.pipeline_cogvideox_image2video"
        ".CogVideoXImageToVideoPipeline.prepare_latents",
        "diffsynth/lab-07: CogVideoX's latents of an image, of a stand-in",
    ),
    # Hooks and quantizers
    Unstable(
        "diffusers.hooks.group_offloading._apply_group_offloading",
        "diffsynth/lab-08: groups with a stand-in for a stream, of which the CPU has none",
    ),
    Unstable(
        "diffusers.hooks._common._GO_LC_SUPPORTED_PYTORCH_LAYERS",
        "diffsynth/lab-08: the kinds of leaf that are narrow, to which 0.36 is given embeddings",
    ),
    Unstable(f"{GGUF}.split_block_dims", "the three below call it"),
    Unstable(
        f"{GGUF}.dequantize_blocks_Q8_0",
        "diffsynth/lab-08 reads it out of the file, whose import wants the package gguf",
    ),
    Unstable(f"{GGUF}.dequantize_blocks_Q4_0", "the same of another kind"),
    Unstable(f"{GGUF}.dequantize_blocks_Q4_1", "the same of another kind"),
    Unstable(
        "diffusers.models.autoencoders.autoencoder_kl_hunyuan_video.prepare_causal_attention_mask",
        "diffsynth/lab-06 reads it out of the file, and holds masks against it",
    ),
    Unstable(
        "diffusers.training_utils.compute_snr",
        "lab 01 reads it out of the file, without the imports",
    ),
    # What diffusers calls experimental
    Unstable(GUIDANCE, "diffsynth/lab-04: guidance in a window, called experimental"),
    Unstable(f"{GUIDANCE}._is_cfg_enabled", "which turns that window guides"),
    Unstable(
        f"{MODULAR}.modular_pipeline.PipelineState",
        "lab 05 hands latents to the blocks below; modular pipelines are called experimental",
    ),
    Unstable(
        f"{MODULAR}.flux.decoders.FluxDecodeStep", "lab 05: Flux' decoding without a whole run"
    ),
    Unstable(
        f"{MODULAR}.stable_diffusion_xl.decoders.StableDiffusionXLDecodeStep",
        "lab 05: decoding with a mean for each channel",
    ),
    Unstable(
        f"{MODULAR}.flux2.decoders.Flux2DecodeStep",
        "diffsynth/lab-07: what Flux 2's VAE is given to decode",
        since="0.37",
    ),
    Unstable(f"{FLUX2}._unpatchify_latents", "diffsynth/lab-07: the same, for diffusers 0.36"),
    Unstable(
        f"{MODULAR}.wan.decoders.WanVaeDecoderStep",
        "diffsynth/lab-07: what Wan's VAE is given to decode",
        since="0.37",
    ),
    # torch
    Unstable(
        "torch._C.DisableTorchFunctionSubclass",
        "a tensor of a learner's own class is looked at without running its code",
    ),
    Unstable(
        "torch.utils._python_dispatch.TorchDispatchMode",
        "counts the bytes that are alive at once, in the examiner and in lab 10's references",
    ),
    Unstable("torch.utils._pytree.tree_leaves", "finds the tensors in what an operation gives"),
    Unstable("torch._foreach_lerp_", "an average of all weights while the shipped model is fitted"),
    Unstable("torch.nn.Module._parameters", "a copy of a network that shares its numbers"),
    Unstable("torch.nn.Module._modules", "the same, of its parts"),
    Unstable("torch.nn.Module._buffers", "the same, of its buffers"),
    Unstable("torch.nn.Module._forward_hooks", "hooks that a trace must leave as they were"),
    Unstable("torch.nn.Module._forward_pre_hooks", "the same, before a forward"),
    # pytest
    Unstable(
        "_pytest.python.Function._fixtureinfo",
        "which arguments a check takes, to run it in a warm examiner without a session",
    ),
)


def missing(search: Sequence[str] | None = None) -> tuple[Unstable, ...]:
    """Those whose source, as installed, defines them no more; not the compiled ones.

    `search` is where packages are looked for, by default where Python would. A package that is not
    there at all lacks each of its names.
    """
    where = tuple(sys.path if search is None else search)
    return tuple(
        one
        for one in UNSTABLE
        if not one.compiled and not _is_defined(one.name, where) and not _is_to_come(one, where)
    )


def compiled() -> tuple[str, ...]:
    """The names that only torch itself can tell of."""
    return tuple(one.name for one in UNSTABLE if one.compiled)


def _is_to_come(one: Unstable, search: tuple[str, ...]) -> bool:
    """Whether what is installed is older than the name."""
    if not one.since:
        return False
    found = distributions(name=one.package, path=list(search))
    since = Version(one.since).release  # its candidates count as it
    return any(Version(package.version).release < since for package in found)


def _is_defined(name: str, search: tuple[str, ...]) -> bool:
    try:
        path, inner = module_file(name, search)
    except NoSourceError:
        return False
    body: list[ast.stmt] = _tree(path).body
    *owners, last = inner
    for owner in owners:
        body = [
            inside
            for node in body
            if isinstance(node, ast.ClassDef) and node.name == owner
            for inside in node.body
        ]
    return any(last in _names(node) for node in body)


@lru_cache(maxsize=32)
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _names(node: ast.stmt) -> Iterator[str]:
    """What a statement of a module or a class defines, and what a method sets on `self`."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name
    if isinstance(node, ast.Assign):
        yield from (target.id for target in node.targets if isinstance(target, ast.Name))
    if isinstance(node, ast.FunctionDef):
        yield from (inside.attr for inside in ast.walk(node) if _is_set_on_self(inside))


def _is_set_on_self(node: ast.AST) -> TypeGuard[ast.Attribute]:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    )
