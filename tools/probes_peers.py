"""Other checkers of PyTorch models on the layers that the probes are measured on.

Each adapter applies every check of its peer that can apply to a layer `(x, blocked)` that makes
the claims: with a mask if it takes one, the causal checks if it is causal, the permutation if it
has no positions, the streaming if it has a cache. Where a peer lets the caller choose inputs, they
are those that show most: batch equal to seq, pads on both sides, a sample that is padded
throughout, pads with large content. Left out are checks that need a task (classes, targets, a
loss that must fall), those of compilers and devices, those where the caller writes the
transformation himself, and those that no right layer here passes, named where they would stand.

A check that raises anything calls the layer faulty: a test suite with it would be red.
"""

import contextlib
import importlib
import io
import sys
import unittest
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from selfattn.probes.claims import Claims, claims_of
from tools.probes_peer_inputs import (
    VOCABULARY,
    WIDTH,
    InOne,
    Kept,
    Tokens,
    batches,
    inputs_of,
)

HOME = Path(__file__).parent.parent / ".cache" / "peers"
"""Where `make probes-bench` installs them: not into the environment, since one of them is a plugin
of pytest that would then run in every test."""

Make = Callable[[], Any]


class Attempts:
    """Runs checks and keeps the names of those that raise.

    Attributes:
        failed: the names.
    """

    def __init__(self, seed: int) -> None:
        self.seed, self.failed = seed, dict[str, None]()
        torch.manual_seed(seed)

    def __call__(self, name: str, check: Callable[..., Any], *args: Any, **words: Any) -> None:
        torch.manual_seed(self.seed)
        try:
            with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
                warnings.simplefilter("ignore")
                check(*args, **words)
        except Exception:
            self.failed[name] = None


def pytest_torch(make: Make, claims: Claims, attempt: Attempts) -> None:
    """The contract, masks, padding, permutation, layout, gradients, streaming, autocast."""
    import pytest_torch as peer

    by_place = claims.positions or claims.causal or claims.window or claims.packed
    for given, empty in inputs_of(claims):
        model = Kept(make(), claims).eval()
        low = (torch.bfloat16,)
        attempt("contract", peer.check_inference_contract, model, given, dtypes=low)
        attempt("layout", peer.assert_layout_invariant, model, given)
        attempt("autocast", peer.assert_autocast_parity, model, given)
        attempt("parameters", peer.assert_all_params_receive_grad, model, given, _squares)
        if not by_place:
            attempt("permutation", peer.assert_permutation_equivariant, model, given)
        if empty is not None:
            attempt("contract, empty", peer.check_inference_contract, model, empty)

            def of_others(out: Tensor, keep: Tensor = empty["keep"]) -> Tensor:
                return _squares(out[keep == 1])

            attempt("gradients", peer.assert_gradients_finite, model, empty, of_others)
            _pads(peer, Tokens(make(), claims).eval(), claims, given["keep"], attempt)
    if claims.cache:
        attempt("streaming", _streaming, peer, make().eval(), torch.randn(3, 7, WIDTH))


def _pads(peer: Any, model: Tokens, claims: Claims, keep: Tensor, attempt: Attempts) -> None:
    ids = torch.randint(1, VOCABULARY, keep.shape)
    names = {"ids_key": "ids", "mask_key": "keep"}
    given, whole = {"ids": ids, "keep": keep}, {"ids": ids, "keep": torch.ones_like(keep)}
    attempt("mask", peer.assert_mask_invariant, model, given, vocab_size=VOCABULARY, **names)
    for side in ("right", "left") if claims.positions != "absolute" else ("right",):
        attempt(f"padding {side}", peer.assert_padding_invariant, model, whole, side=side, **names)


def _streaming(peer: Any, layer: Any, x: Tensor) -> None:
    peer.assert_streaming_equivalent(
        lambda x: layer(x)[0],
        lambda chunk, state: layer(chunk, None, state),
        x,
        chunk_sizes=(1, 2, 3, 7),
        init_state=lambda: None,
    )


def _squares(out: Tensor) -> Tensor:
    return out.square().sum()


def torchtest2(make: Make, claims: Claims, attempt: Attempts) -> None:
    """All of `check_model`, its warnings too; without a task a random projection is its loss."""
    import torchtest2 as peer

    for given, empty in inputs_of(claims):
        attempt("check_model", peer.assert_model_ok, Kept(make(), claims), given, strict=True)
        if empty is not None:
            attempt("empty", peer.assert_model_ok, Kept(make(), claims), empty, strict=True)


def neural_net_checklist(make: Make, claims: Claims, attempt: Attempts) -> None:
    """Batch independence, causality, both ways, and gradients."""
    from neural_net_checklist import torch_diagnostics as peer

    def model() -> InOne:
        return InOne(make(), claims)

    for x, keep in batches():
        data = (torch.cat([x, keep.unsqueeze(-1)], -1), torch.zeros(len(x)))
        attempt("batch", peer.assert_forward_batch_independence, model, data)
        attempt("batch, backward", peer.assert_backward_batch_independence, model, data)
        attempt("gradients", peer.assert_non_zero_gradients, model(), data)
        if claims.causal:
            attempt("causal", peer.assert_forward_causal_property, model, data)
            attempt("causal, backward", peer.assert_backward_causal_property, model, data)


def pangolinn(make: Make, claims: Claims, attempt: Attempts) -> None:
    """The padding test, and the two of causality.

    `test_padding_area_is_zero` is left out: no layer here gives zeros at pads, nor must it.
    """
    from pangolinn import seq2seq

    class Wrapper(seq2seq.PangolinnSeq2SeqModuleWrapper):
        num_input_channels = WIDTH

        def build_module(self) -> nn.Module:
            return Kept(make(), claims)

        def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
            out: Tensor = self._module(x, torch.arange(x.shape[1]) < lengths.unsqueeze(1))
            return out

    padding, causal = (
        type("Case", (home,), {"module_wrapper_class": Wrapper})
        for home in (seq2seq.EncoderPaddingTestCase, seq2seq.CausalTestCase)
    )
    if claims.mask:
        attempt("padding", _run, padding("test_batch_size_does_not_matter"))
    if claims.causal:
        attempt("causal", _run, causal("test_not_looking_at_the_future"))
        attempt("causal, backward", _run, causal("test_gradient_not_flowing_from_future"))


def _run(case: unittest.TestCase) -> None:
    result = unittest.TestResult()
    case.run(result)
    for _, text in [*result.failures, *result.errors]:
        raise AssertionError(text)


@dataclass(frozen=True)
class Peer:
    """A checker: its name on the package index, what is imported, and what applies its checks."""

    name: str
    module: str
    apply: Callable[[Make, Claims, Attempts], None]


PEERS = (
    Peer("pytest-torch", "pytest_torch", pytest_torch),
    Peer("torchtest2", "torchtest2", torchtest2),
    Peer("neural-net-checklist", "neural_net_checklist.torch_diagnostics", neural_net_checklist),
    Peer("pangolinn", "pangolinn.seq2seq", pangolinn),
)


def missing() -> dict[str, str]:
    """Make the peers importable; give those that still cannot be imported, with the reason."""
    if str(HOME) not in sys.path:
        sys.path.append(str(HOME))
    reasons = {}
    for peer in PEERS:
        try:
            importlib.import_module(peer.module)
        except Exception as error:  # whatever its import does
            reasons[peer.name] = f"{type(error).__name__}: {error}"
    return reasons


def failed_checks(peer: Peer, make: Make, claims: dict[str, Any], seed: int) -> list[str]:
    """Name the checks by which a peer calls a layer faulty."""
    attempt = Attempts(seed)
    peer.apply(make, claims_of(**claims), attempt)
    return list(attempt.failed)
