"""Containers that a layer holds, kept by what is in them, in its order."""

import types
from collections import OrderedDict, deque
from typing import Any

import numpy as np

MANY = 1000
"""Containers of more things are not kept, for all would be looked at before every call."""


def is_box(thing: Any) -> bool:
    """Tell whether a thing is a container that can be kept."""
    if isinstance(thing, np.ndarray):
        return not thing.dtype.hasobject
    return isinstance(thing, list | dict | set | deque) and len(thing) <= MANY


class Box:
    """A container and a copy of it.

    Attributes:
        name: where it is.
        box: the container itself.
        owned: whether it is the layer's own, and not only reached.
    """

    def __init__(self, name: str, box: Any, *, owned: bool, leave: tuple[str, ...] = ()) -> None:
        self.name, self.box, self.owned = name, box, owned
        self._leave = leave  # keys of a dict that belong to something else
        self._saved = self._content()

    def same(self) -> bool:
        """Tell whether it holds the same things as its copy."""
        if type(self.box) is OrderedDict and not self.box:  # most are: hooks of modules
            return not self._saved
        if isinstance(self.box, np.ndarray):
            floats = self.box.dtype.kind in "fc"
            return bool(np.array_equal(self.box, self._saved, equal_nan=floats))
        now, saved = self._content(), self._saved
        if isinstance(now, dict):
            return list(now) == list(saved) and all(now[k] is saved[k] for k in saved)
        if isinstance(now, set):
            return bool(now == saved)
        return len(now) == len(saved) and all(a is b for a, b in zip(now, saved, strict=True))

    def put_back(self) -> None:
        """Give the container what its copy holds."""
        box, saved = self.box, self._saved
        if isinstance(box, types.CellType):
            box.cell_contents = saved[0]
        elif isinstance(box, np.ndarray):
            np.copyto(box, saved)
        elif isinstance(box, dict):
            left = {key: box[key] for key in self._leave if key in box}
            box.clear()
            box.update(left | saved)
        elif isinstance(box, set):
            box.clear()
            box.update(saved)
        else:
            box.clear()
            box.extend(saved)

    def _content(self) -> Any:
        box = self.box
        if isinstance(box, types.CellType):
            return [box.cell_contents]
        if isinstance(box, np.ndarray):
            return box.copy()
        if isinstance(box, dict):
            return {key: value for key, value in box.items() if key not in self._leave}
        return set(box) if isinstance(box, set) else list(box)
