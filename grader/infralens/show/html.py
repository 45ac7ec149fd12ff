"""A Report as one HTML page that stands alone: no script, no request, everything escaped."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined

from infralens.report import Report
from infralens.show.curve import drawn
from infralens.show.harmless import excerpt, harmless, one_line
from infralens.show.heat import heat_maps, scale_of
from infralens.show.terminal import follows_from, qualified


def to_html(report: Report, program: str = "infralens") -> str:
    """The page; `program` begins the commands in it.

    Text from a submission is made harmless first and escaped by the template.
    """
    environment = Environment(
        loader=PackageLoader("infralens.show", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"harmless": harmless, "one_line": one_line, "excerpt": excerpt}
    environment.filters |= {"qualified": qualified, "follows_from": follows_from}
    environment.filters |= {"heat_maps": heat_maps, "scale_of": scale_of, "drawn": drawn}
    return environment.get_template("report.html.jinja").render(report=report, program=program)
