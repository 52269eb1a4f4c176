"""The tokenizer an adapter plans with: one ``tokenizer.json``, read two ways."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import Tokenizer

from jevserve.checkpoints.files import read_json
from jevserve.errors import CheckpointError

MAX_BYTES = 128 << 20


class FileTokenizer:
    """``jevserve.adapters.base.Tokenizer`` over a checkpoint's ``tokenizer.json``.

    Both readings ignore the file's truncation, padding and post-processing, so an encoding is
    exactly the text that was given. The methods are safe to call from several threads at once.

    Control tokens are the special tokens and every other added token that is not mere white
    space (chat families mark some of their turn and tool markers as not special).

    Raises:
        CheckpointError: no tokenizer, one that cannot be read, or one whose vocabulary lets
            caller text spell a control token.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise CheckpointError(
                f"{folder} has no tokenizer.json; save the checkpoint's fast tokenizer there "
                "(AutoTokenizer.from_pretrained(...).save_pretrained(...))"
            )
        document = read_json(path, MAX_BYTES)
        try:
            self._template = Tokenizer.from_str(json.dumps(document))
            for token in document.get("added_tokens") or []:
                token["special"] = token["special"] or bool(token["content"].strip())
            self._text = Tokenizer.from_str(json.dumps(document))
        except Exception as error:  # the library raises bare Exception for a bad file
            raise CheckpointError(f"{path} is not a tokenizer: {error}") from error
        for tokenizer in (self._template, self._text):
            tokenizer.no_truncation()
            tokenizer.no_padding()
        self._text.encode_special_tokens = True
        unknown = (document.get("model") or {}).get("unk_token")
        self.control: dict[str, int] = {
            token.content: id
            for id, token in self._text.get_added_tokens_decoder().items()
            if token.special and token.content != unknown
        }
        self._refuse_spellable(path)

    def _refuse_spellable(self, path: Path) -> None:
        ids = set(self.control.values())
        for content in self.control:
            for text in (content, f"a {content} b"):
                if ids.intersection(self.encode_text(text)):
                    raise CheckpointError(
                        f"{path}: text that spells {content!r} becomes that control token, so "
                        "callers could write the model's own markers; this tokenizer is not safe "
                        "to serve"
                    )

    def encode_text(self, text: str) -> list[int]:
        """Ids of caller text: never a control token, whatever the text spells.

        A lone surrogate, which no encoding can carry, reads as U+FFFD.
        """
        return self._encode(self._text, text)

    def encode_template(self, text: str) -> list[int]:
        """Ids of the family's own prompt text, in which special tokens are themselves."""
        return self._encode(self._template, text)

    @staticmethod
    def _encode(tokenizer: Tokenizer, text: str) -> list[int]:
        try:
            encoding = tokenizer.encode(text, add_special_tokens=False)
        except (TypeError, UnicodeError):
            plain = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)
            encoding = tokenizer.encode(plain, add_special_tokens=False)
        return list(encoding.ids)
