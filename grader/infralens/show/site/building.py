"""The site built by Sphinx, MyST-Parser and furo, and put in its place whole or not at all."""

from __future__ import annotations

import io
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from infralens.labs import Lab
from infralens.show.site.errors import SiteError
from infralens.show.site.staging import INDEX, Answers, Sources, stage
from infralens.show.site.typesetting import typeset

MARK = ".infralens-site"  # a folder that holds it may be replaced by a newer site
NEEDED = {"sphinx": "Sphinx", "myst_parser": "MyST-Parser", "furo": "furo"}
STATIC = Path(__file__).resolve().parent / "static"
# What is told of a second site in one process: all of it is there already.
REGISTERED = [f"app.add_{what}" for what in ("node", "directive", "role", "source_parser")]
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def missing() -> str | None:
    """What the site is made with and is not installed, in one sentence; None when all is."""
    lacking = [name for module, name in NEEDED.items() if find_spec(module) is None]
    if not lacking:
        return None
    return f"The site needs {' and '.join(lacking)}: pip install 'infralens-labs[site]'."


def require_place(out: Path) -> None:
    """SiteError where the site could not be put, before anything is made for it."""
    nearest = out.parent
    if not nearest.is_dir():
        raise SiteError(f"{out} cannot be written: there is no folder {nearest}.")
    if not os.access(nearest, os.W_OK):
        raise SiteError(f"{out} cannot be written: Permission denied.")
    if not out.exists():
        return
    if not out.is_dir():
        raise SiteError(f"{out} is no folder; name another place for the site.")
    if any(out.iterdir()) and not (out / MARK).is_file():
        raise SiteError(f"{out} holds something that is no site; name an empty or a new folder.")


def build_site(
    labs: Sequence[Lab],
    out: Path,
    answers: Answers,
    tell: Callable[[str], None] = lambda doing: None,
    sources: Sources = lambda lab, todo: "",
) -> int:
    """Build the site of these labs at `out`; says how many pages it has.

    An earlier site there is replaced once this one is whole. `tell` hears what is being done.
    """
    lacking = missing()
    if lacking is not None:
        raise SiteError(lacking)
    out = out.resolve()
    require_place(out)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as made:
        work = Path(made)
        source, built = work / "source", work / "site"
        source.mkdir()
        pages = stage(labs, source, answers, tell, sources)
        _generate(source, built, [page.name for page in pages], work / "doctrees", tell)
        (built / MARK).touch()
        (built / ".nojekyll").touch()  # GitHub Pages leaves out folders with a _ otherwise
        if out.exists():
            out.rename(work / "replaced")
        built.rename(out)
    return len(pages) + 1


def _generate(
    source: Path, built: Path, names: Sequence[str], doctrees: Path, tell: Callable[[str], None]
) -> None:
    from sphinx.application import Sphinx

    warnings = io.StringIO()
    app = Sphinx(source, None, built, doctrees, "html", _settings(), status=None, warning=warnings)
    read: list[str] = []
    written: list[str] = []
    of = len(names) + 1

    def reading(app: Any, name: str, text: list[str]) -> None:
        read.append(name)
        tell(f"page {len(read)} of {of}, read")

    def writing(app: Any, name: str, *rest: Any) -> None:
        written.append(name)
        if len(written) <= of:
            tell(f"page {len(written)} of {of}, written")

    app.connect("doctree-read", typeset)
    app.connect("source-read", reading)
    app.connect("html-page-context", writing)
    app.build(force_all=True)
    said = COLOUR.sub("", warnings.getvalue()).replace(f"{source}{os.sep}", "").strip()
    if said:
        raise SiteError(f"The pages do not make a site: {said.splitlines()[0]}")
    shutil.rmtree(built / "_sources", ignore_errors=True)


def _settings() -> dict[str, Any]:
    return {
        "project": "InfraLens",
        "root_doc": INDEX,
        "extensions": ["myst_parser"],
        "suppress_warnings": REGISTERED,
        "myst_heading_anchors": 4,
        "myst_heading_slug_func": "infralens.pages.anchor",
        "smartquotes": False,  # the ' of x0' is a prime
        "html_theme": "furo",
        "html_title": "InfraLens",
        "html_static_path": [str(STATIC)],
        "html_favicon": str(STATIC / "icon.svg"),
        "html_css_files": ["site.css"],
        "html_js_files": ["site.js"],
        "html_copy_source": False,
        "html_show_sourcelink": False,
        "html_show_copyright": False,
    }
