"""What stands in a candidate for things that live in the examiner: callbacks and remote objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from infralens.wire import Callback, Namespace, Raised, Records, Remote

Ask = Callable[[dict[str, Any]], Any]


class RemoteError(RuntimeError):
    """What the examiner's function raised, told again here."""


class LentFunction:
    """A function of the examiner. Calling it here runs it there, with copies of the arguments."""

    def __init__(self, ask: Ask, number: int, name: str) -> None:
        self._ask, self._number, self.__name__ = ask, number, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._ask({"kind": "callback", "n": self._number, "args": args, "kwargs": kwargs})


class LentObject:
    """An object of the examiner. Declared attributes and methods answer from there."""

    def __init__(self, ask: Ask, record: Remote) -> None:
        object.__setattr__(self, "_ask", ask)
        object.__setattr__(self, "_record", record)

    def __getattr__(self, name: str) -> Any:
        record: Remote = object.__getattribute__(self, "_record")
        ask: Ask = object.__getattribute__(self, "_ask")
        if name in record.methods:

            def method(*args: Any, **kwargs: Any) -> Any:
                use = {"kind": "use", "n": record.number, "name": name}
                return ask({**use, "args": args, "kwargs": kwargs})

            method.__name__ = name
            return method
        if name in record.attributes:
            return ask({"kind": "use", "n": record.number, "name": name})
        raise AttributeError(f"{record.type_name!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        record: Remote = object.__getattribute__(self, "_record")
        raise AttributeError(f"{record.type_name}.{name} cannot be set in this lab")

    def __dir__(self) -> list[str]:
        record: Remote = object.__getattribute__(self, "_record")
        return sorted((*record.attributes, *record.methods))

    def __repr__(self) -> str:
        record: Remote = object.__getattribute__(self, "_record")
        return f"<{record.type_name}>"


class LentNamespace:
    """Named values, read as attributes, by name or in order, as diffusers' outputs are."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.__dict__.update(fields)

    def __getitem__(self, key: str | int) -> Any:
        return self.__dict__[key] if isinstance(key, str) else list(self.__dict__.values())[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.__dict__.values())

    def __contains__(self, key: object) -> bool:
        return key in self.__dict__

    def get(self, key: str, default: Any = None) -> Any:
        return self.__dict__.get(key, default)

    def keys(self) -> Any:
        return self.__dict__.keys()

    def __repr__(self) -> str:
        inside = ", ".join(f"{key}={value!r}" for key, value in self.__dict__.items())
        return f"namespace({inside})"


def resolver(ask: Ask, kept: Callable[[int], Any]) -> Callable[[Records], Any]:
    """The function that turns arriving records into the objects that stand for them."""

    def resolve(record: Records) -> Any:
        if isinstance(record, Callback):
            return LentFunction(ask, record.number, record.name)
        if isinstance(record, Remote):
            return LentObject(ask, record)
        if isinstance(record, Namespace):
            return LentNamespace(dict(record.fields))
        if isinstance(record, Raised):
            return RemoteError(f"{record.type_name}: {record.text}")
        return kept(record.number)

    return resolve
