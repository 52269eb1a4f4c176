"""Where prepared checkpoints live, and what a full or forbidden disk is called."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jevserve.errors import CheckpointError

ENVIRONMENT = "JEVSERVE_CACHE"


def cache_root(setting: str | Path | None = None) -> Path:
    """The cache folder: the setting, else ``JEVSERVE_CACHE``, else ``~/.cache/jevserve``."""
    chosen = setting or os.environ.get(ENVIRONMENT) or "~/.cache/jevserve"
    return Path(chosen).expanduser().absolute()


@contextmanager
def storage_errors(folder: Path) -> Iterator[None]:
    """Errors of the disk under ``folder`` as errors that name the remedy."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise CheckpointError(
                f"the disk that holds {folder} is full; free space there, or set {ENVIRONMENT} to "
                "a folder on another disk"
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise CheckpointError(
                f"{error.filename or folder} may not be read or written ({error.strerror}); fix "
                f"its permissions, or set {ENVIRONMENT} to a folder that can be written"
            ) from error
        raise CheckpointError(f"{error.filename or folder}: {error.strerror or error}") from error
