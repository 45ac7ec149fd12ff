"""Size and SHA-256 of the shipped files, so that a changed or missing file is noticed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

PARTS = ("pipeline", "controlnet", "lora")

LIMITS = {"pipeline": 8_000_000, "controlnet": 2_000_000, "lora": 2_000_000}
"""Most bytes for each folder."""


def shipped_files(root: Path) -> list[Path]:
    """Every file of the three folders, sorted."""
    return sorted(p for part in PARTS for p in (root / part).rglob("*") if p.is_file())


def describe(root: Path) -> dict[str, dict[str, int | str]]:
    """Path relative to `root` (with forward slashes) to size in bytes and SHA-256."""
    return {
        path.relative_to(root).as_posix(): {
            "bytes": path.stat().st_size,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
        for path in shipped_files(root)
    }


def folder_sizes(root: Path) -> dict[str, int]:
    """Bytes in each of the three folders."""
    return {
        part: sum(p.stat().st_size for p in (root / part).rglob("*") if p.is_file())
        for part in PARTS
    }


def write_manifest(root: Path) -> Path:
    path = root / "MANIFEST.json"
    path.write_text(json.dumps(describe(root), indent=1) + "\n", encoding="utf-8")
    return path


def differences(root: Path) -> list[str]:
    """What differs from the manifest, in words; empty if nothing does."""
    extra = sorted(describe(root).keys() - _listed(root).keys())
    return damages(root) + [f"{name} is not in the manifest" for name in extra]


def damages(root: Path) -> list[str]:
    """Files of the manifest that are missing or changed, in words; empty if none is."""
    wanted, found = _listed(root), describe(root)
    missing = [f"{name} is missing" for name in sorted(wanted.keys() - found.keys())]
    changed = [
        f"{name} has changed"
        for name in sorted(wanted.keys() & found.keys())
        if wanted[name] != found[name]
    ]
    return missing + changed


def _listed(root: Path) -> dict[str, dict[str, int | str]]:
    listed: dict[str, dict[str, int | str]] = json.loads(
        (root / "MANIFEST.json").read_text(encoding="utf-8")
    )
    return listed
