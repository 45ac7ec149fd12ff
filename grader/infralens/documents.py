"""YAML files, read with suspicion: bounded before they are parsed, and quickly where libyaml is."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import fastjsonschema
import yaml

from infralens.regular import read_regular

MOST_BYTES = 4 << 20
MOST_DEPTH = 16  # a lab.yaml has four levels
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # in C it takes a twelfth of the time


class _Once(LOADER):  # type: ignore[misc]  # one of two classes, chosen when this runs
    """A loader that takes each key of a mapping once: of two values one would be lost."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in seen:
                    line = key.start_mark.line + 1
                    raise UnfitDocumentError(f"line {line} says {key.value} a second time")
                seen.add(key.value)
        return super().construct_mapping(node, deep)


class UnfitDocumentError(ValueError):
    """A file that is no document of the kind that was asked for; the text says why."""


def read_yaml(
    path: Path,
    judged: Callable[[Any], object] = lambda value: None,
    *,
    most_bytes: int = MOST_BYTES,
) -> Any:
    """What a YAML file holds. UnfitDocumentError when it is too large, too deep or no YAML.

    Anchors are refused: a few lines of them stand for gigabytes. `judged` raises a ValueError for
    what the document may not hold.
    """
    try:
        text = read_regular(path, most_bytes).decode("utf-8")
        _bound(text)
        value = yaml.load(text, Loader=_Once)  # a safe loader, whichever it is
        for number in _floats(value):
            if not math.isfinite(number):
                raise UnfitDocumentError(f"{number} is no number to reckon with")
        judged(value)
        return value
    except OSError as error:
        raise UnfitDocumentError(error.strerror or str(error)) from None
    except yaml.YAMLError as error:
        raise UnfitDocumentError(" ".join(str(error).split())) from None
    # Values that look like dates or numbers and are none.
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise UnfitDocumentError(str(error)) from None


@cache
def judge_of(schema: Path) -> Callable[[Any], None]:
    """What raises a ValueError where a document is not what a JSON schema of ours says."""
    fits = fastjsonschema.compile(json.loads(schema.read_text(encoding="utf-8")))

    def judge(data: Any) -> None:
        try:
            fits(data)
        except fastjsonschema.JsonSchemaValueException as error:
            said = error.message.removeprefix("data.").replace("data ", "it ", 1)
            plain = isinstance(error.value, str | int | float)
            raise ValueError(f"{said}, not {error.value!r:.60}" if plain else said) from None

    return judge


def _bound(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=LOADER):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            line = event.start_mark.line + 1 if event.start_mark else "?"
            raise UnfitDocumentError(f"line {line} has an anchor or alias; write it out")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MOST_DEPTH:
            raise UnfitDocumentError(f"it is more than {MOST_DEPTH} levels deep")


def _floats(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, list | dict):
        inner = value if isinstance(value, list) else (*value.keys(), *value.values())
        for item in inner:
            yield from _floats(item)
