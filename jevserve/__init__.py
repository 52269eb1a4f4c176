"""jevserve: a distributed decision service that answers typed questions about a state."""

__version__ = "0.1.0"
