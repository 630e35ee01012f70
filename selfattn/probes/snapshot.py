"""What a layer holds at one moment: found by looking through it, and put back later.

A layer may be a module, or a function that uses one: closures, bound methods, partial objects,
globals that its code names and attributes are followed.
"""

import types
from typing import Any

import torch
from torch import Tensor, nn

from selfattn.probes import random_states
from selfattn.probes.boxes import Box, is_box
from selfattn.probes.kept import Kept
from selfattn.probes.parts import attributes, is_library, names_in, parts

_DEPTH = 6
_MODULES_OWN = ("_parameters", "_buffers", "_modules")
_KEPT_IN_OTHERS = (nn.Module, Tensor, list, dict, *random_states.SOURCES)
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
        self._boxes: list[Box] = []
        self._draws: list[random_states.Source] = []
        self._seen: set[int] = set()
        self._walk(layer, "layer", 0)
        self._like = {}
        self._training = [getattr(module, "training", None) for module in self.modules]

    def changed(self) -> list[str]:
        """Name what is not as it was."""
        named = [box.name for box in self._boxes if not box.same()]
        return named + ["a buffer"] * any(not kept.holds() for kept in self.tensors)

    def put_back(self, *, everything: bool, closely: bool) -> None:
        """Put back what the layer itself holds; with `everything`, also what it only reaches.

        What it only reaches may be someone else's, such as a list that counts the calls. Looking
        `closely` finds numbers that were changed behind autograd too, as through `.data`.
        """
        for box in self._boxes:
            if (everything or box.owned) and not box.same():
                box.put_back()
        for source in self._draws:
            source.put_back()
        for kept in self.tensors:
            touched = kept.touched()
            if touched or (closely and not kept.holds()):
                self.sly = self.sly or not touched
                kept.put_back()
        for module, training in zip(self.modules, self._training, strict=True):
            if training is not None and module.training is not training:
                module.training = training

    def _walk(self, thing: Any, name: str, depth: int, *, owned: bool = False) -> None:
        if depth > _DEPTH or isinstance(thing, _PLAIN) or id(thing) in self._seen:
            return
        self._seen.add(id(thing))
        source = random_states.source_of(thing)
        if source:
            self._draws.append(source)
        elif isinstance(thing, Tensor):
            self.tensors.append(Kept(thing, name, self._like.get(id(thing))))
        elif isinstance(thing, nn.Module):
            self._module(thing, name)
        elif isinstance(thing, types.FunctionType):
            if not is_library(thing.__module__):
                self._function(thing, name, depth)
        else:
            is_object = self._box(thing, name, owned=owned)
            for below, part in parts(thing):
                self._walk(part, f"{name}{below}", depth + 1, owned=owned or is_object)

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
            self._boxes.append(Box(where, vars(part), owned=True, leave=("training",)))
            for key, value in list(vars(part).items()):
                if key in _MODULES_OWN or "_hooks" in key:
                    if isinstance(value, dict):
                        self._boxes.append(Box(where, value, owned=True))
                else:
                    self._walk(value, f"{where}.{key}", _DEPTH - 2, owned=True)
            self._walk(type(part).forward, where, _DEPTH - 2)

    def _function(self, function: types.FunctionType, name: str, depth: int) -> None:
        for cell in function.__closure__ or ():
            try:
                content = cell.cell_contents
            except ValueError:
                continue  # not assigned yet
            self._boxes.append(Box(f"{name}'s closure", cell, owned=False))
            self._walk(content, f"{name}'s closure", depth + 1)
        for value in [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]:
            self._walk(value, f"{name}'s defaults", depth + 1)
        self._boxes.append(Box(name, vars(function), owned=True))
        names = names_in(function.__code__)
        for key in names:
            self._global(function.__globals__.get(key), f"global {key}", depth, names)

    def _global(self, value: Any, name: str, depth: int, names: set[str]) -> None:
        """Look at a global that a function names, and at what other objects hold directly.

        Such an object may be someone else's: the modules and tensors in it are kept, and not it.
        """
        if isinstance(value, _KEPT_IN_OTHERS):
            self._walk(value, name, depth + 1)
        elif isinstance(value, types.FunctionType):
            if not is_library(value.__module__):
                self._walk(value, name, max(depth + 1, _DEPTH - 3))
        elif isinstance(value, types.ModuleType) or not isinstance(value, _PLAIN):
            home = value.__name__ if isinstance(value, types.ModuleType) else type(value).__module__
            for key, part in () if is_library(home) else attributes(value):
                if key in names and isinstance(part, _KEPT_IN_OTHERS):
                    self._walk(part, f"{name}.{key}", depth + 1)

    def _box(self, thing: Any, name: str, *, owned: bool) -> bool:
        """Keep a container, or what an object holds by name; tell whether it is such an object."""
        if is_box(thing):
            self._boxes.append(Box(name, thing, owned=owned))
        elif hasattr(thing, "__dict__") and not is_library(type(thing).__module__):
            self._boxes.append(Box(name, vars(thing), owned=True))
            return True
        return False
