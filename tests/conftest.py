"""What tests of several folders share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.serving.service import Service, running


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The service with the default model, as ``jevserve serve`` starts it: one for everybody who
    leaves it as it was."""
    with running(tmp_path_factory.mktemp("service"), {"models": [{"name": "jev-embed"}]}) as up:
        yield up
