"""What torch holds for the whole process, and a layer may set: kept and put back."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

_CUDA, _CUDNN = torch.backends.cuda, torch.backends.cudnn

_SWITCHES: tuple[tuple[Callable[[], Any], Callable[[Any], Any]], ...] = (
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.get_default_device, lambda device: torch.set_default_device(_or_none(device))),
    (torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
    (torch.is_grad_enabled, torch.set_grad_enabled),
    (
        lambda: torch.is_autocast_enabled("cpu"),
        lambda enabled: torch.set_autocast_enabled("cpu", enabled),
    ),
    (_CUDA.flash_sdp_enabled, _CUDA.enable_flash_sdp),
    (_CUDA.mem_efficient_sdp_enabled, _CUDA.enable_mem_efficient_sdp),
    (_CUDA.math_sdp_enabled, _CUDA.enable_math_sdp),
    (_CUDA.cudnn_sdp_enabled, _CUDA.enable_cudnn_sdp),
    (torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled),
    (lambda: _CUDNN.benchmark, lambda on: setattr(_CUDNN, "benchmark", on)),
    (lambda: _CUDNN.deterministic, lambda on: setattr(_CUDNN, "deterministic", on)),
)
"""How each switch is read and set."""


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Put all switches back on leaving."""
    before = [read() for read, _ in _SWITCHES]
    try:
        yield
    finally:
        for (read, write), value in zip(_SWITCHES, before, strict=True):
            if read() != value:
                write(value)


def _or_none(device: torch.device) -> torch.device | None:
    """Give None for the CPU, which is the default where nothing was set."""
    return None if device == torch.device("cpu") else device
