"""Self-attention from matrix products, and the tools that keep its lesson true.

`from selfattn import attention, padding_mask, causal_mask` is all that a page needs. The three
names load on first use, so `import selfattn` does not import torch and the site's tools start at
once.
"""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selfattn.attention import attention, causal_mask, padding_mask

__all__ = ["attention", "causal_mask", "padding_mask"]


def __getattr__(name: str) -> object:
    if name in __all__:
        return getattr(importlib.import_module("selfattn.attention"), name)
    raise AttributeError(f"module 'selfattn' has no attribute {name!r}")


class _Package(ModuleType):
    """Keeps `selfattn.attention` the function, whatever was imported before.

    Python stores an imported submodule on its package, so `import selfattn.attention` would
    otherwise put the module of that name where the function belongs.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if name != "attention" or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
