"""Entailment scorers by path: an ONNX sequence classifier with its tokenizer, or a function of the user's own, behind one call on pairs.

What belongs here: opening a model file and turning its logits into a probability. What does not: which sentence is held against which
passage and what that says of an answer (`scoring.entailment`).
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

BATCH = 16
"""Pairs that a model reads at once."""


class Scorer(Protocol):
    """Probability, 0 to 1, that a premise supports a hypothesis, one a pair, in order."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]: ...


@dataclass(frozen=True)
class Onnx:
    """A sequence classifier: the probability of its label `entailment`, or the sigmoid of its only logit (HHEM's form)."""

    session: Any
    tokenizer: Any
    entailment: int

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        # Like lengths together, so that little is padded; a pair's score does not depend on its neighbours.
        order = sorted(range(len(pairs)), key=lambda at: (len(pairs[at][0]) + len(pairs[at][1]), at))
        found = [0.0] * len(pairs)
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            for at, value in zip(batch, self._batch([pairs[at] for at in batch]), strict=True):
                found[at] = value
        return found

    def _batch(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        import numpy as np

        encoded = self.tokenizer.encode_batch(list(pairs))
        known = {
            "input_ids": [e.ids for e in encoded],
            "attention_mask": [e.attention_mask for e in encoded],
            "token_type_ids": [e.type_ids for e in encoded],
        }
        feed = {node.name: np.asarray(known[node.name], dtype=np.int64) for node in self.session.get_inputs()}
        logits = np.asarray(self.session.run(None, feed)[0], dtype=np.float64).reshape(len(pairs), -1)
        if logits.shape[1] == 1:
            return [float(value) for value in 1 / (1 + np.exp(-logits[:, 0]))]
        if not 0 <= self.entailment < logits.shape[1]:
            raise ValueError(f"label {self.entailment} is none of the model's {logits.shape[1]}")
        raised = np.exp(logits - logits.max(axis=1, keepdims=True))
        return [float(value) for value in raised[:, self.entailment] / raised.sum(axis=1)]


@dataclass(frozen=True)
class Function:
    """The user's own module:function([(premise, hypothesis), ...]) -> a probability for each."""

    function: Any

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        return [float(value) for value in self.function(list(pairs))]


def load_scorer(chosen: Mapping[str, Any], folder: Path) -> Scorer | None:
    """The scorer that settings describe (fields of settings.Scorer); None where onnxruntime or tokenizers is not installed.

    Raises ImportError and AttributeError for a function that is not there, OSError for a file that is not, ValueError for a model whose
    inputs are no input_ids, attention_mask or token_type_ids.
    """
    if chosen["kind"] == "function":
        module, _, name = chosen["model"].partition(":")
        return Function(getattr(importlib.import_module(module), name))
    if find_spec("onnxruntime") is None or find_spec("tokenizers") is None:
        return None
    import onnxruntime
    from tokenizers import Tokenizer

    model, words = folder / chosen["model"], folder / chosen["tokenizer"]
    for path in (model, words):
        if not path.is_file():
            raise FileNotFoundError(2, "no such file", str(path))
    tokenizer = Tokenizer.from_file(str(words))
    # The premise gives way: a hypothesis that is cut says something else.
    tokenizer.enable_truncation(chosen["max_tokens"], strategy="only_first")
    tokenizer.enable_padding(pad_id=tokenizer.token_to_id("[PAD]") or tokenizer.token_to_id("<pad>") or 0)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    strange = sorted({node.name for node in session.get_inputs()} - {"input_ids", "attention_mask", "token_type_ids"})
    if strange:
        raise ValueError(f"{model}: its input {strange[0]!r} is none of a sequence classifier's")
    return Onnx(session, tokenizer, chosen["entailment"])
