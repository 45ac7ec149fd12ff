"""Lab 02 of diffsynth: the reading checkpoints, answered by the libraries."""

from __future__ import annotations

import torch

from infralens.quiz import question
from infralens.shapes import FOLDER
from infralens.suites.diffsynth.lab_02_model_loading_path import live


@question("How many bytes must be read to list the tensors of the kit's own UNet?")
def bytes_to_list() -> int:
    """Its 8 bytes of length and the header: 32,960 of 6,479,016, for 286 tensors."""
    data = (FOLDER / "unet" / f"{live.STEM}.safetensors").read_bytes()
    reader = live.Reader(data)
    length = int.from_bytes(reader.read(0, 8), "little")
    reader.read(8, length)
    return reader.given


@question(
    "A folder has an index with its shards, and a single file of the same weights beside them: "
    "which does from_pretrained read?",
    choices=("the single file", "the shards", "both"),
)
def which_wins() -> str:
    """The index counts."""
    files = {**live.saved_vae(10**6, None), **live.saved_vae(12, None)}
    sharded = all("-of-" in name for name in live.opened(files, None))
    return "the shards" if sharded else "the single file"


@question(
    "An index names one file for 30 tensors: how often is the file opened?",
    choices=("once", "30 times"),
)
def how_often() -> str:
    """Once: the values of weight_map are made unique."""
    names = live.opened(live.saved_vae(12, None), None)
    return "once" if len(names) == len(set(names)) else "30 times"


@question(
    "A parameter is on meta, and parameter.copy_(numbers) is called: what happens?",
    choices=("nothing", "the numbers are in it", "an error"),
)
def copied_into_meta() -> str:
    """Nothing at all: there is no place to copy to, and no error."""
    parameter = torch.empty(2, device=live.META)
    parameter.copy_(torch.ones(2))
    return "nothing" if parameter.is_meta else "the numbers are in it"


@question("Does the time embedder of Wan stay in float32 when Wan is loaded in bfloat16?")
def wan_keeps() -> bool:
    """time_embedder is on its list, beside rope, scale_shift_table and the norms."""
    loaded = live.wan_loaded(live.wan().state_dict(), torch.bfloat16)
    return all(t.dtype == torch.float32 for name, t in loaded.items() if "time_embedder" in name)
