"""Pipelines of diffusers that suites put together, of the parts that a check asks for."""

from __future__ import annotations

from typing import Any

from infralens.examiner import quiet_transformers

PARTS = (
    *("vae", "text_encoder", "tokenizer", "unet", "scheduler"),
    *("safety_checker", "feature_extractor"),
)


def pipeline_of(kind: str, **parts: Any) -> Any:
    """A pipeline of this class with these parts and no others; it draws no bar.

    Its constructor may change the scheduler's configuration, so take a `twin` afterwards.
    """
    quiet_transformers()
    import diffusers

    empty = dict.fromkeys(PARTS)
    pipe = getattr(diffusers, kind)(**{**empty, **parts}, requires_safety_checker=False)
    pipe.set_progress_bar_config(disable=True)
    return pipe
