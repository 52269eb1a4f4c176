"""A configured model as routers and engines both see it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jevserve.adapters.base import Adapter, Limits, Prepared, Tokenizer
from jevserve.adapters.registry import find
from jevserve.checkpoints.prepare import prepare
from jevserve.checkpoints.tokenizer import FileTokenizer
from jevserve.settings import ModelSettings, ServiceSettings
from jevserve.transport.secret import TlsFiles


@dataclass(frozen=True)
class ServedModel:
    """What a router needs to plan for one model: everything but the weights."""

    settings: ModelSettings
    prepared: Prepared
    adapter: Adapter
    tokenizer: Tokenizer
    limits: Limits


def limited(prepared: Prepared, model: ModelSettings) -> Prepared:
    """The prepared checkpoint with its longest row cut to what the operator serves."""
    row_tokens = min(int(prepared.settings["row_tokens"]), model.max_model_len)
    return replace(prepared, settings={**prepared.settings, "row_tokens": row_tokens})


def served(model: ModelSettings, settings: ServiceSettings) -> ServedModel:
    """Load a model's plan side; prepares the checkpoint where nobody has. Blocks.

    Raises:
        CheckpointError: it cannot be prepared.
    """
    prepared = limited(prepare(model.source, cache=settings.cache, protocol=model.protocol), model)
    adapter = find(prepared.protocol)
    return ServedModel(
        model, prepared, adapter, FileTokenizer(prepared.path), adapter.limits(prepared)
    )


def tls_files(settings: ServiceSettings) -> TlsFiles | None:
    """TLS of the transport, None where it is not configured."""
    t = settings.transport
    if t.tls_cert is None or t.tls_key is None or t.tls_ca is None:
        return None
    return TlsFiles(cert=t.tls_cert, key=t.tls_key, ca=t.tls_ca)
