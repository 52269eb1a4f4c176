"""jevserve: a distributed decision service that answers typed questions about a state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jevserve.client import AsyncClient, Client, ServiceError, choice, noul, score

__version__ = "0.1.0"

__all__ = ["AsyncClient", "Client", "ServiceError", "__version__", "choice", "noul", "score"]


def __getattr__(name: str) -> Any:
    """The client's names, loaded when they are used: engines have no need of it."""
    if name in __all__:
        import jevserve.client

        return getattr(jevserve.client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
