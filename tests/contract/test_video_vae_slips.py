"""What the page of diffsynth/lab-07 says of the library itself, held against the one here."""

from __future__ import annotations

import inspect
from types import SimpleNamespace

import diffusers
import torch
from diffusers.models.autoencoders import autoencoder_kl_hunyuan_video as hunyuan
from diffusers.models.autoencoders import autoencoder_kl_wan as wan
from diffusers.models.autoencoders.autoencoder_kl_cogvideox import CogVideoXCausalConv3d

from infralens.suites import configs
from infralens.suites.diffsynth.lab_07_vae_encode_decode import live
from infralens.suites.networks import frozen


def test_hunyuans_convolution_pads_the_wrong_axes() -> None:
    layer = frozen(hunyuan.HunyuanVideoCausalConv3d(1, 1, (3, 1, 1)))
    assert layer(torch.zeros(1, 1, 9, 5, 6)).shape[2:] == (7, 5, 8)


def test_cogvideoxs_convolution_exchanges_rows_and_columns() -> None:
    layer = frozen(CogVideoXCausalConv3d(1, 1, (3, 1, 3)))
    assert layer(torch.zeros(1, 1, 9, 5, 6))[0].shape[2:] == (9, 7, 4)


def test_wan_encodes_sixteen_frames_as_thirteen() -> None:
    video = torch.randn(1, 3, 16, 8, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(
        live.encoded(live.wan(4), video), live.encoded(live.wan(4), video[:, :, :13])
    )


def test_wan_given_a_clip_whole_compresses_no_frames() -> None:
    moments = live.Streamed(live.wan(4)).encode(torch.zeros(1, 3, 13, 8, 8))
    assert moments.shape[2] == 13


def test_wan_of_another_ratio_encodes_groups_of_four() -> None:
    assert live.lengths_encoded(live.wan(2), torch.zeros(1, 3, 5, 8, 8)) == [1, 4]


def test_ltx_s_later_tiles_lie_one_frame_late() -> None:
    config = configs.ltx((True, True, False), 4, 4)
    vae = configs.made(config["_class_name"], config)
    vae.decoder.forward = lambda z, temb=None: live.stretched(vae.temporal_compression_ratio)(z)
    ratio = vae.temporal_compression_ratio
    vae.use_framewise_decoding = True
    vae.tile_sample_min_num_frames, vae.tile_sample_stride_num_frames = 4 * ratio, 3 * ratio
    latents = torch.arange(9.0).reshape(1, 1, 9, 1, 1).expand(1, 4, 9, 1, 1)
    frames = vae.decode(latents).sample[0, 0, :, 0, 0]
    whole = live.stretched(ratio)(latents)[0, 0, :, 0, 0]
    wrong = ((frames - whole).abs() > 1e-4).nonzero().flatten().tolist()
    assert wrong[0] == 3 * ratio + 2
    later = wrong[-1]
    assert frames[later].item() < whole[later].item()


def test_what_wans_pipelines_call_the_deviation_is_its_reciprocal() -> None:
    text = inspect.getsource(diffusers.WanImageToVideoPipeline.prepare_latents)
    assert "latents_std = 1.0 / " in text
    assert "(latent_condition - latents_mean) * latents_std" in text


def test_cogvideox_divides_by_the_factor_where_it_decodes_an_inverted_one() -> None:
    stats = {"scaling_factor": 0.5, "invert_scale_latents": True}
    latents = torch.ones(1, 4, 1, 2, 2)
    picture = live.to_model("CogVideoX", latents, stats)
    vae = SimpleNamespace(decode=lambda z: SimpleNamespace(sample=z))
    made = diffusers.CogVideoXImageToVideoPipeline.decode_latents(
        SimpleNamespace(vae=vae, vae_scaling_factor_image=0.5), picture.permute(0, 2, 1, 3, 4)
    )
    assert (float(picture.mean()), float(made.mean())) == (2.0, 4.0)


def test_wans_own_patches_have_the_column_before_the_row() -> None:
    pixels = torch.arange(4.0).reshape(1, 1, 1, 2, 2)
    assert wan.patchify(pixels, 2).flatten().tolist() == [0.0, 2.0, 1.0, 3.0]
