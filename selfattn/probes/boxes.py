"""Containers that a layer holds, kept by what is in them: dicts, lists, sets and closures' cells.

The flag `training` of a module is no part of its dict here: it belongs to the mode.
"""

import types
from typing import Any


def same(box: Any, saved: Any) -> bool:
    """Tell whether a container holds the same things as its copy."""
    if isinstance(box, types.CellType):
        return box.cell_contents is saved
    if isinstance(box, dict):
        box = {k: v for k, v in box.items() if k != "training"} if "training" in box else box
        return box.keys() == saved.keys() and all(box[k] is saved[k] for k in saved)
    if isinstance(box, set):
        return bool(box == saved)
    return len(box) == len(saved) and all(a is b for a, b in zip(box, saved, strict=True))


def put(box: Any, saved: Any) -> None:
    """Put back into a container what its copy holds."""
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
