"""What a layer holds at one moment: found by looking through it, and put back later.

A layer may be a module, or a function that uses one: closures, bound methods, partial objects,
globals that its code names and attributes are followed.
"""

import functools
import types
from collections import deque
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from selfattn.probes import boxes
from selfattn.probes.kept import Kept

_DEPTH = 6
_MANY = 1000
_PLAIN = (str, bytes, int, float, complex, bool, type(None), type, types.ModuleType)


class Snapshot:
    """The modules, tensors and containers that a layer reaches, as they are now.

    Attributes:
        roots: the modules that were met first, each with all of its own below it.
        modules: all modules.
        tensors: all tensors.
        sly: whether a change was put back that autograd had not seen.
    """

    def __init__(self, layer: Any, like: "Snapshot | None" = None) -> None:
        self.roots: list[nn.Module] = []
        self.modules: list[nn.Module] = []
        self.tensors: list[Kept] = []
        self.sly = False
        self._like = {id(kept.tensor): kept for kept in like.tensors} if like else {}
        self._boxes: list[tuple[str, Any, Any]] = []
        self._owned: set[int] = set()
        self._seen: set[int] = set()
        self._walk(layer, "layer", 0)
        self._like = {}
        self._training = [module.training for module in self.modules]

    def changed(self) -> list[str]:
        """Name what is not as it was."""
        named = [name for name, box, saved in self._boxes if not boxes.same(box, saved)]
        return named + ["a buffer"] * any(not kept.holds() for kept in self.tensors)

    def put_back(self, *, everything: bool, closely: bool) -> None:
        """Put back what the layer itself holds; with `everything`, also what it only reaches.

        What it only reaches may be someone else's, such as a list that counts the calls. Looking
        `closely` finds numbers that were changed behind autograd too, as through `.data`.
        """
        for _, box, saved in self._boxes:
            if (everything or id(box) in self._owned) and not boxes.same(box, saved):
                boxes.put(box, saved)
        for kept in self.tensors:
            touched = kept.touched()
            if touched or (closely and not kept.holds()):
                self.sly = self.sly or not touched
                kept.put_back()
        for module, training in zip(self.modules, self._training, strict=True):
            if module.training is not training:
                module.training = training

    def _walk(self, thing: Any, name: str, depth: int) -> None:
        if depth > _DEPTH or isinstance(thing, _PLAIN) or id(thing) in self._seen:
            return
        self._seen.add(id(thing))
        if isinstance(thing, Tensor):
            self.tensors.append(Kept(thing, name, self._like.get(id(thing))))
        elif isinstance(thing, nn.Module):
            self._module(thing, name)
        elif isinstance(thing, types.FunctionType):
            if not _is_library(thing.__module__):
                self._function(thing, name, depth)
        else:
            self._box(thing, name, depth)
            for below, part in _parts(thing):
                self._walk(part, f"{name}{below}", depth + 1)

    def _module(self, module: nn.Module, name: str) -> None:
        self.roots.append(module)
        for path, part in module.named_modules():
            self._seen.add(id(part))
            self.modules.append(part)
            where = f"{name}.{path}" if path else name
            for tensor in [*part.parameters(recurse=False), *part.buffers(recurse=False)]:
                self._walk(tensor, where, 0)
            if isinstance(part, torch.jit.ScriptModule):
                continue
            attributes = {k: v for k, v in vars(part).items() if k != "training"}
            self._boxes.append((where, vars(part), attributes))
            self._owned.add(id(vars(part)))
            for key in ("_parameters", "_buffers"):
                self._boxes.append((where, vars(part)[key], dict(vars(part)[key])))
                self._owned.add(id(vars(part)[key]))
            for key, value in attributes.items():
                if key != "_modules" and not key.endswith("_hooks"):
                    self._walk(value, f"{where}.{key}", _DEPTH - 2)
            self._walk(type(part).forward, where, _DEPTH - 2)

    def _function(self, function: types.FunctionType, name: str, depth: int) -> None:
        for cell in function.__closure__ or ():
            try:
                content = cell.cell_contents
            except ValueError:
                continue  # not assigned yet
            self._boxes.append((f"{name}'s closure", cell, content))
            self._walk(content, f"{name}'s closure", depth + 1)
        for value in [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]:
            self._walk(value, f"{name}'s defaults", depth + 1)
        if vars(function):
            self._box(function, name, depth)
        names = _names(function.__code__)
        for key in names:
            self._global(function.__globals__.get(key), f"global {key}", depth, names)

    def _global(self, value: Any, name: str, depth: int, names: set[str]) -> None:
        """Look at a global that a function names, and at what other objects hold directly.

        Such an object may be someone else's: the modules and tensors in it are kept, and not it.
        """
        if isinstance(value, nn.Module | Tensor | list | dict):
            self._walk(value, name, depth + 1)
        elif isinstance(value, types.FunctionType):
            if not _is_library(value.__module__):
                self._walk(value, name, max(depth + 1, _DEPTH - 3))
        elif isinstance(value, types.ModuleType) or not isinstance(value, _PLAIN):
            home = value.__name__ if isinstance(value, types.ModuleType) else type(value).__module__
            for key, part in () if _is_library(home) else _attributes(value):
                if key in names and isinstance(part, nn.Module | Tensor | list | dict):
                    self._walk(part, f"{name}.{key}", depth + 1)

    def _box(self, thing: Any, name: str, depth: int) -> None:
        if isinstance(thing, list | dict | set | deque):
            if len(thing) <= _MANY:
                self._boxes.append((name, thing, thing.copy()))
        elif hasattr(thing, "__dict__") and not _is_library(type(thing).__module__):
            self._boxes.append((name, vars(thing), dict(vars(thing))))
            self._owned.add(id(vars(thing)))


def _parts(thing: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(thing, dict):
        yield from ((f"[{key!r}]", value) for key, value in list(thing.items())[:_MANY])
    elif isinstance(thing, list | tuple | deque):
        yield from ((f"[{i}]", value) for i, value in enumerate(list(thing)[:_MANY]))
    elif isinstance(thing, functools.partial):
        yield from (("'s function", thing.func), ("'s words", thing.args))
        yield "'s words", thing.keywords
    elif isinstance(thing, types.MethodType):
        yield from (("", thing.__self__), ("", thing.__func__))
    elif not _is_library(type(thing).__module__):
        yield from ((f".{key}", value) for key, value in _attributes(thing))
        call = vars(type(thing)).get("__call__")
        if isinstance(call, types.FunctionType):
            yield "", call


def _attributes(thing: Any) -> list[tuple[str, Any]]:
    """Give what an object holds by name, in its dict or in slots."""
    slots = [s for kind in type(thing).__mro__ for s in _words(vars(kind).get("__slots__", ()))]
    held = [(name, getattr(thing, name)) for name in slots if hasattr(thing, name)]
    return held + list(getattr(thing, "__dict__", {}).items())


def _words(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _names(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names(constant)
    return names


def _is_library(module: str | None) -> bool:
    return (module or "").split(".")[0] in ("torch", "numpy", "builtins", "typing", "functools")
