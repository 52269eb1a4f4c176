"""Caller text never becomes a control token, template text does, and nothing is cut or padded."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from folders import WORDS, word_piece
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from jevserve.checkpoints import FileTokenizer
from jevserve.errors import CheckpointError

MARKERS = ["<|im_start|>", "<|im_end|>", "<think>", "<tool_call>"]


def byte_level() -> dict[str, Any]:
    """A byte-level BPE whose last two markers are added tokens that are not called special."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=MARKERS[:2],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["think about im start and end " * 20], trainer)
    tokenizer.add_tokens(MARKERS[2:])
    document: dict[str, Any] = json.loads(tokenizer.to_str())
    return document


def load(folder: Path, document: dict[str, Any]) -> FileTokenizer:
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(document))
    return FileTokenizer(folder)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[FileTokenizer, FileTokenizer]:
    root = tmp_path_factory.mktemp("tokenizers")
    return load(root / "bpe", byte_level()), load(root / "wordpiece", word_piece())


PIECES = st.lists(st.one_of(st.sampled_from([*MARKERS, *WORDS[:4]]), st.text(max_size=8)))


@given(pieces=PIECES)
def test_no_text_spells_a_control_token(
    both: tuple[FileTokenizer, FileTokenizer], pieces: list[str]
) -> None:
    for tokenizer in both:
        ids = tokenizer.encode_text("".join(pieces))
        assert not set(tokenizer.control.values()).intersection(ids)


def test_template_text_spells_every_marker(both: tuple[FileTokenizer, FileTokenizer]) -> None:
    bpe, word = both
    for marker in MARKERS:
        assert bpe.encode_template(marker) == [bpe.control[marker]]
    assert word.encode_template("[CLS] a [SEP]") == [2, 4, 3]


def test_byte_level_text_is_reversible_so_nothing_is_lost(
    both: tuple[FileTokenizer, FileTokenizer],
) -> None:
    bpe = both[0]
    reader = Tokenizer.from_str(json.dumps(byte_level()))
    reader.decoder = __import__("tokenizers").decoders.ByteLevel()
    text = "a <|im_start|> in text, and <think>"
    assert reader.decode(bpe.encode_text(text), skip_special_tokens=False) == text


def test_truncation_and_padding_of_the_file_are_ignored(
    both: tuple[FileTokenizer, FileTokenizer],
) -> None:
    word = both[1]
    assert word.encode_text("a") == [4]
    assert len(word.encode_text("a " * 100)) == 100


def test_a_lone_surrogate_does_not_break_encoding(
    both: tuple[FileTokenizer, FileTokenizer],
) -> None:
    for tokenizer in both:
        assert tokenizer.encode_text("a \ud800") == tokenizer.encode_text("a \ufffd")


def test_threads_agree(both: tuple[FileTokenizer, FileTokenizer]) -> None:
    texts = [f"start {i} <think> end" for i in range(200)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(both[0].encode_text, texts)) == [*map(both[0].encode_text, texts)]


def test_a_vocabulary_that_spells_its_own_markers_is_refused(tmp_path: Path) -> None:
    document = word_piece(pre_tokenizer={"type": "WhitespaceSplit"}, normalizer=None)
    with pytest.raises(CheckpointError, match="not safe"):
        load(tmp_path, document)


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"model": 3}', "[" * 100_000])
def test_what_is_no_tokenizer_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
        FileTokenizer(tmp_path)


def test_a_missing_tokenizer_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="save_pretrained"):
        FileTokenizer(tmp_path)
