"""One tiny chat checkpoint for every test of this process that needs no engine."""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path

from tests.make_checkpoints import make


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    # Removed when the interpreter ends.
    return tempfile.TemporaryDirectory(prefix="tiny-chat-")


@cache
def tiny_chat() -> Path:
    """A ``Qwen3ForCausalLM`` folder with a byte-level tokenizer and a chat template."""
    return make("qwen3-dense", Path(_folder().name))


def copy_of_tiny_chat(target: Path, *, template: str | None = None) -> Path:
    """A copy that a test may change, with another chat template if given."""
    shutil.copytree(tiny_chat(), target)
    if template is not None:
        (target / "chat_template.jinja").write_text(template)
    return target
