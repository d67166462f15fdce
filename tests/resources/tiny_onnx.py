"""A real, tiny sequence classifier written as an ONNX file by hand: its logits are the sums of its words' weights.

The format is protocol buffers (onnx.proto3); only what such a graph needs is written here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

FLOAT, INT64 = 1, 7


def _number(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _int(field: int, value: int) -> bytes:
    return _number(field << 3) + _number(value)


def _bytes(field: int, value: bytes | str) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return _number(field << 3 | 2) + _number(len(raw)) + raw


def _tensor(name: str, array: np.ndarray) -> bytes:
    kind = FLOAT if array.dtype == np.float32 else INT64
    dims = b"".join(_int(1, size) for size in array.shape)
    return dims + _int(2, kind) + _bytes(8, name) + _bytes(9, array.tobytes())


def _node(kind: str, inputs: Sequence[str], output: str, **attributes: int) -> bytes:
    own = b"".join(_bytes(5, _bytes(1, name) + _int(3, value) + _int(20, 2)) for name, value in attributes.items())
    return b"".join(_bytes(1, name) for name in inputs) + _bytes(2, output) + _bytes(4, kind) + own


def _value(name: str, kind: int, dims: Sequence[str]) -> bytes:
    shape = b"".join(_bytes(1, _bytes(2, dim)) for dim in dims)
    return _bytes(1, name) + _bytes(2, _bytes(1, _int(1, kind) + _bytes(2, shape)))


def write_classifier(folder: Path, weights: Mapping[str, Sequence[float]], input_name: str = "input_ids") -> None:
    """`model.onnx` and `tokenizer.json` below `folder`: a classifier whose logits are the sums of `weights` of the words of both texts."""
    words = {"[PAD]": 0, "[UNK]": 1, "[SEP]": 2, **{word: number for number, word in enumerate(weights, 3)}}
    labels = len(next(iter(weights.values())))
    table = np.zeros((len(words), labels), dtype=np.float32)
    for word, own in weights.items():
        table[words[word]] = own
    nodes = [
        _node("Gather", ["table", input_name], "words"),
        _node("Cast", ["attention_mask"], "mask", to=FLOAT),
        _node("Unsqueeze", ["mask", "last"], "wide"),
        _node("Mul", ["words", "wide"], "seen"),
        _node("ReduceSum", ["seen", "middle"], "logits", keepdims=0),
    ]
    constants = [_tensor("table", table), _tensor("last", np.array([2])), _tensor("middle", np.array([1]))]
    graph = b"".join(_bytes(1, node) for node in nodes) + _bytes(2, "classifier") + b"".join(_bytes(5, c) for c in constants)
    graph += b"".join(_bytes(11, _value(name, INT64, ("batch", "length"))) for name in (input_name, "attention_mask"))
    graph += _bytes(12, _value("logits", FLOAT, ("batch", "labels")))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(_int(1, 8) + _bytes(8, _bytes(1, "") + _int(2, 13)) + _bytes(7, graph))
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "normalizer": {"type": "Lowercase"}, "decoder": None,
        "added_tokens": [
            {"id": number, "content": word, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
            for word, number in list(words.items())[:3]
        ],
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [
                {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
                {"Sequence": {"id": "B", "type_id": 1}},
            ],
            "special_tokens": {"[SEP]": {"id": "[SEP]", "ids": [2], "tokens": ["[SEP]"]}},
        },
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "[UNK]"},
    }  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
