"""Tiny random-weight checkpoints of real model classes, for tests of everything but quality.

    python tests/make_checkpoints.py OUT [NAME ...]

Every checkpoint is a plain folder (config, tokenizer, safetensors) of a few megabytes, made from
a fixed seed, and is not made again while its folder is complete. The answers of such a model mean
nothing; they are a function of its input and so can be compared between two ways to compute them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from string import ascii_uppercase
from typing import Any

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

#: Written last; a folder with this content is complete and made by this recipe.
STAMP, RECIPE = "made-by.json", 2

SEED = 20240217
BPE_VOCABULARY = 6_144
WORDPIECE_VOCABULARY = 2_048

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def training_text() -> Iterator[str]:
    """Source of the standard library: on every machine, and English enough for a tokenizer."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(folder.glob("*.py"))[:90]:
        yield path.read_text(encoding="utf-8", errors="replace")


def label_text() -> Iterator[str]:
    """Labels as a chat model meets them, so that " A" to " ZZ" become single tokens.

    Often enough that no pair of letters loses against words of the training text.
    """
    labels = [*ascii_uppercase, *map("".join, product(ascii_uppercase, repeat=2))]
    order = random.Random(SEED)
    for _ in range(120):
        order.shuffle(labels)
        yield "".join(f"Answer: {label}\n" for label in labels)


def byte_level_tokenizer(folder: Path) -> dict[str, int]:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=BPE_VOCABULARY,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([*training_text(), *label_text()], trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<|endoftext|>",
        eos_token="<|im_end|>",
        pad_token="<|pad|>",
        additional_special_tokens=["<|im_start|>"],
        model_max_length=8_192,
    )
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(folder)
    # Newer transformers writes the template to its own file; older readers look in the config.
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"chat_template": CHAT_TEMPLATE}, indent=1))
    return {
        "vocab_size": len(fast),
        "bos_token_id": fast.convert_tokens_to_ids("<|endoftext|>"),
        "eos_token_id": fast.convert_tokens_to_ids("<|im_end|>"),
        "pad_token_id": fast.convert_tokens_to_ids("<|pad|>"),
    }


def word_piece_tokenizer(folder: Path) -> dict[str, int]:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(
        vocab_size=WORDPIECE_VOCABULARY, special_tokens=special, show_progress=False
    )
    tokenizer.train_from_iterator(training_text(), trainer)
    ids = {name: tokenizer.token_to_id(name) for name in special}
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])],
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        pad_token="[PAD]",
        mask_token="[MASK]",
        model_max_length=512,
    )
    fast.save_pretrained(folder)
    return {"vocab_size": len(fast), "pad_token_id": ids["[PAD]"]}


#: A decoder that takes milliseconds, with everything a large one has.
DECODER = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 8_192,
    "tie_word_embeddings": True,
}


def granite_hybrid(ids: dict[str, int]) -> Any:
    """Mamba-2 and attention layers; runs in float32, so it is the hybrid for exact tests."""
    from transformers import GraniteMoeHybridConfig, GraniteMoeHybridForCausalLM

    config = GraniteMoeHybridConfig(
        **DECODER,
        **ids,
        layer_types=["mamba", "mamba", "mamba", "attention"],
        num_local_experts=0,
        num_experts_per_tok=0,
        shared_intermediate_size=256,
        position_embedding_type="rope",
        mamba_n_heads=8,
        mamba_d_head=32,
        mamba_n_groups=1,
        mamba_d_state=16,
        mamba_d_conv=4,
        mamba_expand=2,
        mamba_chunk_size=64,
    )
    return GraniteMoeHybridForCausalLM(config)


def qwen3_5_hybrid(ids: dict[str, int]) -> Any:
    """Gated delta net and attention layers. vLLM's CPU kernel wants bfloat16 and heads of 128."""
    import torch
    from transformers.models.qwen3_5 import Qwen3_5ForCausalLM, Qwen3_5TextConfig

    config = Qwen3_5TextConfig(
        **DECODER,
        **ids,
        head_dim=64,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=128,
        linear_value_head_dim=128,
        linear_conv_kernel_dim=4,
    )
    return Qwen3_5ForCausalLM(config).to(torch.bfloat16)


def qwen3_dense(ids: dict[str, int]) -> Any:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    return Qwen3ForCausalLM(Qwen3Config(**DECODER, **ids, head_dim=32))


def llama_dense(ids: dict[str, int]) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**DECODER, **ids))


def bert_embed(ids: dict[str, int]) -> Any:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        **ids,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=512,
    )
    return BertModel(config)


Recipe = tuple[Callable[[Path], dict[str, int]], Callable[[dict[str, int]], Any]]

CHECKPOINTS: dict[str, Recipe] = {
    "granite-hybrid": (byte_level_tokenizer, granite_hybrid),
    "qwen3_5-hybrid": (byte_level_tokenizer, qwen3_5_hybrid),
    "qwen3-dense": (byte_level_tokenizer, qwen3_dense),
    "llama-dense": (byte_level_tokenizer, llama_dense),
    "bert-embed": (word_piece_tokenizer, bert_embed),
}


def make(name: str, out: Path) -> Path:
    """The folder ``out/name``, made if it is not complete.

    Raises:
        KeyError: no such checkpoint.
    """
    tokenizer, model = CHECKPOINTS[name]
    folder = Path(out) / name
    stamp = {"name": name, "recipe": RECIPE, "seed": SEED}
    if read_stamp(folder) == stamp:
        return folder
    import torch

    Path(out).mkdir(parents=True, exist_ok=True)
    # Made beside its place and renamed, so that two test runs never see half a checkpoint.
    work = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=out))
    try:
        ids = shared_tokenizer(tokenizer, work, Path(out))
        torch.manual_seed(SEED)
        # Initial weights are small on purpose; wider ones make answers differ visibly.
        network = model(ids)
        with torch.no_grad():
            for parameter in network.parameters():
                if parameter.dim() >= 2:
                    parameter.mul_(4.0)
        network.save_pretrained(work)
        (work / STAMP).write_text(json.dumps(stamp))
        work.chmod(0o755)
        if folder.exists():
            shutil.rmtree(folder)
        try:
            work.rename(folder)
        except OSError:
            if read_stamp(folder) != stamp:
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return folder


def shared_tokenizer(
    build: Callable[[Path], dict[str, int]], folder: Path, out: Path
) -> dict[str, int]:
    """Tokenizer files in ``folder``; trained once per ``out``, as training is the slow part."""
    cached = out / f".{build.__name__}-{RECIPE}"
    if not (cached / "ids.json").exists():
        work = Path(tempfile.mkdtemp(prefix=".tokenizer.", dir=out))
        (work / "ids.json").write_text(json.dumps(build(work)))
        try:
            work.rename(cached)
        except OSError:  # another run was first
            shutil.rmtree(work)
    for path in cached.iterdir():
        if path.name != "ids.json":
            shutil.copyfile(path, folder / path.name)
    ids: dict[str, int] = json.loads((cached / "ids.json").read_text())
    return ids


def read_stamp(folder: Path) -> Any:
    try:
        return json.loads((folder / STAMP).read_text())
    except (OSError, ValueError):
        return None


def main() -> int:
    parser = argparse.ArgumentParser(description="Make tiny random-weight checkpoints.")
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(CHECKPOINTS)}; default all")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(CHECKPOINTS)
    if unknown:
        parser.error(f"no such checkpoint: {', '.join(sorted(unknown))}")
    for name in arguments.names or CHECKPOINTS:
        print(make(name, arguments.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
