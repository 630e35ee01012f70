"""What a thing is made of, so that it can be looked through."""

import functools
import types
from collections import deque
from collections.abc import Iterator
from typing import Any

from selfattn.probes.boxes import MANY


def parts(thing: Any) -> Iterator[tuple[str, Any]]:
    """Give the things that one holds or calls, each with how it is reached."""
    if isinstance(thing, dict):
        yield from ((f"[{key!r}]", value) for key, value in list(thing.items())[:MANY])
    elif isinstance(thing, list | tuple | deque):
        yield from ((f"[{i}]", value) for i, value in enumerate(list(thing)[:MANY]))
    elif isinstance(thing, functools.partial):
        yield from (("'s function", thing.func), ("'s words", thing.args))
        yield "'s words", thing.keywords
    elif isinstance(thing, types.MethodType):
        yield from (("", thing.__self__), ("", thing.__func__))
    elif not is_library(type(thing).__module__):
        yield from ((f".{key}", value) for key, value in attributes(thing))
        call = vars(type(thing)).get("__call__")
        if isinstance(call, types.FunctionType):
            yield "", call


def attributes(thing: Any) -> list[tuple[str, Any]]:
    """Give what an object holds by name, in its dict or in slots."""
    slots = [s for kind in type(thing).__mro__ for s in _words(vars(kind).get("__slots__", ()))]
    held = [(name, getattr(thing, name)) for name in slots if hasattr(thing, name)]
    return held + list(getattr(thing, "__dict__", {}).items())


def _words(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def names_in(code: types.CodeType) -> set[str]:
    """Give the names of globals and attributes in a function's code, inner functions' too."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= names_in(constant)
    return names


def is_library(module: str | None) -> bool:
    """Tell whether a module is of a library whose objects are not looked into."""
    return (module or "").split(".")[0] in ("torch", "numpy", "builtins", "typing", "functools")
