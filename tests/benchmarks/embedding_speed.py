"""Embedding throughput of the default embedder against sentence-transformers on the same model and machine, in one run.

Theirs reads the fp32 weights that lie beside our tokenizer, ours the int8 model; both get the same texts of mixed lengths, in turn.
sentence-transformers is optional and says when it is not installed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from rag_eval_assets.resources.embedders import load_embedder
from rag_eval_assets.resources.embedders.minilm import MINILM_TOKENIZER

WANTED = 1.5
"""Times as fast as sentence-transformers, at least."""
_ROUNDS = 3
_AGREE = 0.98


@dataclass(frozen=True)
class EmbeddingSpeed:
    """Texts a second of processor time, best of some rounds in turn, and the least cosine between two vectors of one text."""

    texts: int
    ours: float
    theirs: float | None
    cosine: float | None

    def lines(self) -> list[str]:
        if self.theirs is None or self.cosine is None:
            return [f"{self.texts} texts: {self.ours:.1f} a second; sentence-transformers: not installed"]
        return [
            f"{self.texts} texts: {self.ours:.1f} a second, sentence-transformers {self.theirs:.1f}, "
            f"{self.ours / self.theirs:.2f} times (wanted at least {WANTED}); least cosine {self.cosine:.4f}"
        ]


def measure(texts: int) -> EmbeddingSpeed:
    """Both on one thread, each text seen up to 256 tokens by both."""
    rng = np.random.default_rng(4)
    words = ["pump", "valve", "pressure", "oil", "winter", "the", "of", "is", "checked", "every", "year", "by", "a", "fitter"]
    corpus = [" ".join(rng.choice(words, size)) for size in rng.integers(10, 200, texts)]
    embedder = load_embedder("minilm", "minilm", batch=8, threads=1)
    folder = MINILM_TOKENIZER.locate()
    if embedder is None or folder is None:
        raise RuntimeError("the extra minilm is not installed")
    model = None
    if find_spec("sentence_transformers") is not None:
        import torch
        from sentence_transformers import SentenceTransformer

        torch.set_num_threads(1)
        model = SentenceTransformer(str(folder.parent), device="cpu")
        model.max_seq_length = 256

    rates: dict[str, list[float]] = {"ours": [], "theirs": []}
    own = embedder.embed(corpus[:8])
    other = own if model is None else model.encode(corpus[:8], normalize_embeddings=True, show_progress_bar=False)
    for _ in range(_ROUNDS):
        started = time.process_time()
        embedder.embed(corpus)
        rates["ours"].append(texts / (time.process_time() - started))
        if model is not None:
            started = time.process_time()
            model.encode(corpus, normalize_embeddings=True, show_progress_bar=False)
            rates["theirs"].append(texts / (time.process_time() - started))
    if model is None:
        return EmbeddingSpeed(texts, max(rates["ours"]), None, None)
    cosine = float((own * other).sum(axis=1).min())
    assert cosine >= _AGREE
    return EmbeddingSpeed(texts, max(rates["ours"]), max(rates["theirs"]), cosine)
