"""What changed as one HTML page that stands alone: no script, no request, everything escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined

from infralens.drift.comparing import KINDS, Drift
from infralens.labs import Lab


def to_html(found: Mapping[Lab, Drift], releases: Sequence[str], seed: int) -> str:
    """The page: a row a lab, and for each value that changed a row under its lab."""
    environment = Environment(
        loader=PackageLoader("infralens.drift", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.get_template("drift.html.jinja")
    return template.render(found=found, releases=releases, seed=seed, kinds=KINDS)
