"""What the attacks share. This text stands between the stub and the attack's own, in one file.

Every name begins with an underscore, so that nothing here is rebound by `_in_every_call`.
"""

import functools as _functools
import json as _json
import os as _os
import struct as _struct
import sys as _sys
import time as _time
import types as _types

import torch as _torch


def _public():
    """(owner, name, function) of every public function and method of this file."""
    for name, value in list(globals().items()):
        if name.startswith("_") or getattr(value, "__module__", None) != __name__:
            continue
        if isinstance(value, _types.FunctionType):
            yield None, name, value
        elif isinstance(value, type):
            for inner, method in list(vars(value).items()):
                if isinstance(method, _types.FunctionType) and not inner.startswith("_"):
                    yield value, inner, method


def _in_every_call(attack):
    """Every public function and method of this file becomes `attack(*args, **kwargs)`."""
    for owner, name, function in _public():

        def call(*args, _owner=owner, **kwargs):
            return attack(*(args if _owner is None else args[1:]), **kwargs)

        _put(owner, name, function, call)


def _answer_everywhere(make):
    """Every call returns `make(*args)`, and every empty attribute of an object becomes that too."""
    for owner, name, function in _public():

        def call(*args, _owner=owner, **kwargs):
            if _owner is None:
                return make(*args)
            for attribute, value in list(vars(args[0]).items()):
                if value is None:
                    vars(args[0])[attribute] = make(*args[1:])
            return make(*args[1:])

        _put(owner, name, function, call)


def _put(owner, name, function, call):
    _functools.update_wrapper(call, function)
    if owner is None:
        globals()[name] = call
    else:
        setattr(owner, name, call)


def _server():
    """The object that holds the channel. Where there is none, the process ends with exit code 0."""
    frame = _sys._getframe()
    while frame is not None:
        for name in ("self", "server"):
            owner = frame.f_locals.get(name)
            if type(owner).__name__ == "Server" and hasattr(owner, "answers"):
                return owner
        frame = frame.f_back
    _os._exit(0)


def _frame(header, body=b""):
    """A frame as the wire has them, of whatever is given."""
    if not isinstance(header, bytes):
        header = _json.dumps(header).encode()
    return _struct.pack(">4sIQ", b"ILw1", len(header), len(body)) + header + body


def _say(server, data):
    """Put bytes on the channel."""
    server.answers.write(data)
    server.answers.flush()


class _Sink:
    """Swallows one answer of the server's own."""

    def __init__(self, server):
        self.server, self.real = server, server.answers

    def write(self, data):
        pass

    def flush(self):
        self.server.answers = self.real


def _instead(data):
    """In every call: these bytes (or what this function of the server gives) instead of an answer."""

    def attack(*args, **kwargs):
        server = _server()
        _say(server, data(server) if callable(data) else data)
        server.answers = _Sink(server)

    _in_every_call(attack)


def _answered(value):
    """In every call: a forged answer whose value is this JSON tree."""
    _instead(lambda server: _frame({"kind": "answer", "call": server.call, "value": value}))


def _safetensors(entries, data):
    """A safetensors body with this header, true or not."""
    header = entries if isinstance(entries, bytes) else _json.dumps(entries).encode()
    return _struct.pack("<Q", len(header)) + header + data


def _tensor_answered(entries, data, value=None):
    """In every call: a forged answer of tensors, with this safetensors header and these bytes."""
    value = value or {"t": "tensor", "i": "0", "d": "cpu"}
    _instead(
        lambda server: _frame(
            {"kind": "answer", "call": server.call, "value": value}, _safetensors(entries, data)
        )
    )
