"""What a layer holds: found by looking through it, put back after every call.

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

_DEPTH = 6
_MANY = 1000
_PLAIN = (str, bytes, int, float, complex, bool, type(None), type, types.ModuleType)


class State:
    """The modules, tensors and containers that a layer reaches, as they were."""

    def __init__(self, layer: Any) -> None:
        self.modules: list[nn.Module] = []
        self.tensors: list[tuple[Tensor, Tensor, int]] = []
        self._boxes: list[tuple[str, Any, Any]] = []
        self._owned: set[int] = set()
        self._seen: set[int] = set()
        self._walk(layer, "layer", 0)
        self._training = [module.training for module in self.modules]
        self._gradients = [(tensor, tensor.grad) for tensor, _, _ in self.tensors if tensor.is_leaf]
        self._mode: bool | None = None

    @property
    def parameters(self) -> list[Tensor]:
        """All floating-point tensors that take gradients."""
        return [t for t, _, _ in self.tensors if t.requires_grad and t.is_floating_point()]

    def train(self, mode: bool) -> None:
        """Put every module in a mode."""
        if self._mode is not mode:
            for module in self.modules:
                module.train(mode)
            self._mode = mode

    def changed(self) -> list[str]:
        """Name what is not as it was."""
        named = [name for name, box, saved in self._boxes if not _same(box, saved)]
        return named + ["a buffer"] * any(_touched(t, v) for t, _, v in self.tensors)

    def restore(self, *, everything: bool) -> None:
        """Put back what the layer itself holds; with `everything`, also what it only reaches.

        What it only reaches may be someone else's, such as a list that counts the calls.
        """
        for _, box, saved in self._boxes:
            if (everything or id(box) in self._owned) and not _same(box, saved):
                _put(box, saved)
        for i, (tensor, saved, version) in enumerate(self.tensors):
            if _touched(tensor, version):
                with torch.no_grad():
                    tensor.data.copy_(saved)
                self.tensors[i] = (tensor, saved, _version(tensor))

    def finish(self, *, everything: bool) -> None:
        """Restore, modes and gradients too."""
        self.restore(everything=everything)
        for module, training in zip(self.modules, self._training, strict=True):
            if module.training is not training:
                module.training = training
        for tensor, gradient in self._gradients:
            if tensor.grad is not gradient:
                tensor.grad = gradient

    def _walk(self, thing: Any, name: str, depth: int) -> None:
        if depth > _DEPTH or isinstance(thing, _PLAIN) or id(thing) in self._seen:
            return
        self._seen.add(id(thing))
        if isinstance(thing, Tensor):
            self.tensors.append((thing, thing.detach().clone(), _version(thing)))
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
        for key in _names(function.__code__):
            value = function.__globals__.get(key)
            if isinstance(value, nn.Module | Tensor | list | dict):
                self._walk(value, f"global {key}", depth + 1)
            elif isinstance(value, types.FunctionType) and not _is_library(value.__module__):
                self._walk(value, f"global {key}", max(depth + 1, _DEPTH - 3))

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
    elif hasattr(thing, "__dict__") and not _is_library(type(thing).__module__):
        yield from ((f".{key}", value) for key, value in list(vars(thing).items()))
        call = vars(type(thing)).get("__call__")
        if isinstance(call, types.FunctionType):
            yield "", call


def _names(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names(constant)
    return names


def _is_library(module: str | None) -> bool:
    return (module or "").split(".")[0] in ("torch", "numpy", "builtins", "typing", "functools")


def _same(box: Any, saved: Any) -> bool:
    if isinstance(box, types.CellType):
        return box.cell_contents is saved
    if isinstance(box, dict):
        box = {k: v for k, v in box.items() if k != "training"} if "training" in box else box
        return box.keys() == saved.keys() and all(box[k] is saved[k] for k in saved)
    if isinstance(box, set):
        return bool(box == saved)
    return len(box) == len(saved) and all(a is b for a, b in zip(box, saved, strict=True))


def _put(box: Any, saved: Any) -> None:
    if isinstance(box, types.CellType):
        box.cell_contents = saved
    elif isinstance(box, dict):
        for key in [key for key in box if key not in saved and key != "training"]:
            del box[key]
        box.update(saved)
    elif isinstance(box, set):
        box.clear()
        box.update(saved)
    else:
        box.clear()
        box.extend(saved)


def _version(tensor: Tensor) -> int:
    return -1 if tensor.is_inference() else tensor._version


def _touched(tensor: Tensor, version: int) -> bool:
    return not tensor.is_inference() and tensor._version != version
