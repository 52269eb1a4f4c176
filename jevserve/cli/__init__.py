"""The command line: every verb a person needs, thin over the package."""

from jevserve.cli.main import main

__all__ = ["main"]
