"""Which diffusers is installed, where a reference has to be asked otherwise of an older one."""

from __future__ import annotations

import diffusers
from packaging.version import Version


def since(release: str) -> bool:
    """Whether the installed diffusers is this release or newer; its candidates count as it."""
    return Version(diffusers.__version__).release >= Version(release).release
