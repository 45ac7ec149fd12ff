"""`nbgrader collect` of this kit's courses: plain files, and nothing that they only point at.

nbgrader's own follows links with the rights of who collects: a link to the source notebook would
come in as a submission with every answer, and a pipe would end the collecting for all.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from nbgrader.exchange.default import ExchangeCollect

from infralens.regular import read_regular
from infralens.show.harmless import one_line

OLDEST = datetime(1970, 1, 1)  # nbgrader's times are of UTC and do not say so


class CollectPlainFiles(ExchangeCollect):
    """Copies what nbgrader would copy, but for links, pipes and devices, which are told."""

    def _path_to_record(self, path: str) -> dict[str, Any]:
        """Whose a folder is, and of when. One whose name says no time counts as the oldest."""
        try:
            record: dict[str, Any] = super()._path_to_record(path)
        except (ValueError, OverflowError):
            name = Path(path).name
            self.log.warning("%s says no time that can be read", one_line(name))
            record = {"username": name.split("+")[0], "filename": name, "timestamp": OLDEST}
        return record

    def do_copy(self, src: str, dest: str, log: Any = None) -> None:
        """Copy one learner's folder. Who handed in too much is left out, and stops nobody."""
        whole = 1000 * self.coursedir.max_dir_size  # nbgrader counts in kilobytes
        with tempfile.TemporaryDirectory(prefix="infralens-collect-") as folder:
            plain = Path(folder) / "plain"
            plain.mkdir()
            for path, data in plain_files(Path(src)):
                whole -= len(data) if isinstance(data, bytes) else 0
                if whole < 0:
                    self.log.error("%s is left out: it is too large", one_line(src))
                    return
                if isinstance(data, str):
                    self.log.warning("%s/%s is left out: %s", *map(one_line, (src, path, data)))
                    continue
                (plain / path).parent.mkdir(parents=True, exist_ok=True)
                (plain / path).write_bytes(data)
            super().do_copy(str(plain), dest, log)


def plain_files(folder: Path, most_bytes: int = 10**8) -> Iterator[tuple[str, bytes | str]]:
    """The files below a folder, by their path in it; a sentence in place of what is none."""
    if folder.is_symlink():
        yield ".", "it is a symbolic link"
        return
    for here, folders, names in os.walk(folder):
        inside = Path(here).relative_to(folder)
        links = [name for name in folders if Path(here, name).is_symlink()]
        for name in sorted([*names, *links]):
            path = (inside / name).as_posix()
            try:
                yield path, read_regular(Path(here, name), most_bytes, follow=False)
            except OSError as error:
                yield path, error.strerror or "it cannot be read"
