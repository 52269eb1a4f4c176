"""Hand-made checkpoint folders: as small as a folder can be and still be prepared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "state", "##s", "[", "]", "cls", "sep"]


def word_piece(**changes: Any) -> dict[str, Any]:
    """A WordPiece ``tokenizer.json`` with truncation and padding that must not be honoured."""
    special = [
        {
            "id": i,
            "content": w,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for i, w in enumerate(WORDS[:4])
    ]
    return {
        "version": "1.0",
        "truncation": {
            "max_length": 4,
            "strategy": "LongestFirst",
            "stride": 0,
            "direction": "Right",
        },
        "padding": {
            "strategy": {"Fixed": 8},
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": 0,
            "pad_type_id": 0,
            "pad_token": "[PAD]",
        },
        "added_tokens": special,
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {w: i for i, w in enumerate(WORDS)},
        },
    } | changes


def bert_folder(folder: Path, **config: Any) -> Path:
    """A ``BertModel`` folder with one small tensor."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {"architectures": ["BertModel"], "max_position_embeddings": 32} | config
    (folder / "config.json").write_text(json.dumps(document))
    (folder / "tokenizer.json").write_text(json.dumps(word_piece()))
    save_file({"w": np.arange(8, dtype=np.float32)}, folder / "model.safetensors")
    return folder
