"""Command line: train the pipeline, measure it, draw its grids.

python -m infralens.shapes train --out DIR
python -m infralens.shapes measure [--out DIR]
python -m infralens.shapes grid --out DIR
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from infralens.shapes import CONTROLNET_FOLDER, FOLDER, LORA_FOLDER, quiet
from infralens.shapes.manifest import folder_sizes, write_manifest

WRITTEN_LAST = ("model_index.json", "config.json", "pytorch_lora_weights.safetensors")


class UnusableError(Exception):
    """What was asked for cannot be done with these options; the text says why."""


def pick_device(name: str) -> str:
    """The device to use: CUDA under "auto" if there is one, and never a missing one."""
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise SystemExit("--device cuda: this torch finds no CUDA device")
    return name


def folders(out: Path | None) -> tuple[Path, Path, Path]:
    """Pipeline, ControlNet and LoRA of a training run, or the shipped ones."""
    if out is None:
        return FOLDER, CONTROLNET_FOLDER, LORA_FOLDER
    parts = (out / "pipeline", out / "controlnet", out / "lora")
    for part, file in zip(parts, WRITTEN_LAST, strict=True):
        if not (part / file).is_file():
            raise UnusableError(
                f"{out} holds no finished run: {part.name}/{file} is missing; "
                f"`python -m infralens.shapes train --out {out}` makes it"
            )
    return parts


def train(out: Path, device: str) -> None:
    """Train all stages, write the three folders and the manifest, measure."""
    import torch
    from diffusers import StableDiffusionPipeline
    from tqdm import tqdm

    from infralens.shapes.quality import basic
    from infralens.shapes.training import Workshop
    from infralens.shapes.training import train as train_all

    def report(pipe: StableDiffusionPipeline, step: int) -> None:
        values = basic(pipe, count=60, unseen=12)["all prompts"]
        figures = "  ".join(f"{word} {100 * share:.0f} %" for word, share in values.items())
        tqdm.write(f"step {step}, 60 prompts: {figures}")

    try:
        shop = Workshop.under(out, torch.device(device))
    except OSError as error:
        raise UnusableError(f"{out} cannot be written: {error.strerror}") from None
    took = train_all(shop, report)
    write_manifest(out)
    for name, stage in took.items():
        print(f"{name}: {stage.steps} steps, loss {stage.loss:.4f}, {stage.seconds / 60:.1f} min")
    measure(out, device)


def measure(out: Path | None, device: str) -> None:
    """Print the quality table and the sizes; keep them in the run's folder if there is one."""
    from infralens.shapes.quality import measure as measure_all
    from infralens.shapes.quality import save, table

    pipeline, controlnet, lora = folders(out)
    rows = measure_all(pipeline, controlnet, lora, device)
    print(table(rows))
    for part, size in folder_sizes(pipeline.parent).items():
        print(f"{part}: {size} bytes")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        save(rows, out / "quality.json")


def grid(out: Path, device: str) -> None:
    """Write the picture grids into `out`/grids."""
    from infralens.shapes.grids import write_grids

    for path in write_grids(*folders(out), out / "grids", device):
        print(path)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m infralens.shapes", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = parser.add_subparsers(dest="command", required=True)
    for name, needed, text in (
        ("train", True, "train every stage; goes on where an earlier run stopped"),
        ("measure", False, "print the quality table of a run or of the shipped files"),
        ("grid", True, "draw the picture grids"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("--out", type=Path, required=needed, help="folder of the run")
        command.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
        command.add_argument("--threads", type=count, default=0, help="CPU threads; 0: torch's own")
    chosen = parser.parse_args(arguments)
    try:
        run(chosen.command, chosen.out, chosen.device, chosen.threads)
    except UnusableError as error:
        parser.error(f"{error}.")
    except KeyboardInterrupt:
        print("\nStopped. The same command goes on from the last checkpoint.", file=sys.stderr)
        return 130
    return 0


def count(text: str) -> int:
    """A number of threads: ValueError below 0."""
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


def run(command: str, out: Path | None, device_name: str, threads: int) -> None:
    """One of the three commands."""
    import torch

    from infralens.shapes.fitting import CheckpointError

    quiet()
    if threads:
        torch.set_num_threads(threads)
    device = pick_device(device_name)
    try:
        if command == "measure":
            measure(out, device)
        elif out is not None:
            {"train": train, "grid": grid}[command](out, device)
    except CheckpointError as error:
        raise UnusableError(str(error)) from None


if __name__ == "__main__":
    sys.exit(main())
