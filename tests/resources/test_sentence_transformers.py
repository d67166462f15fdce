"""The real sentence-transformers library on tiny models of random weights: what is asked of it is what it does today."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_eval_assets.resources.embedders import EmbedderError, load_embedder
from rag_eval_assets.resources.embedders.late import LateDocument, embed_spans
from rag_eval_assets.resources.rerankers import load_reranker

# The lock leaves the extra `st` out, for it brings torch.
pytest.importorskip("sentence_transformers", reason="the extra st (sentence-transformers) is not installed")

WORDS = [
    "the",
    "pump",
    "leaks",
    "oil",
    "at",
    "its",
    "shaft",
    "seal",
    "while",
    "a",
    "valve",
    "of",
    "cold",
    "water",
    "stays",
    "shut",
    "until",
    "spring",
    "comes",
    "back",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "model"


def bert(folder: Path, kind: str, **config: Any) -> None:
    """A BERT of two layers with random weights and a tokenizer of whole words, as transformers saves them."""
    import torch
    import transformers

    folder.mkdir(parents=True)
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (folder / "vocab.txt").write_text("\n".join(tokens), encoding="utf-8")
    tokenizer = transformers.BertTokenizerFast(
        vocab={token: number for number, token in enumerate(tokens)}, model_max_length=32, do_lower_case=True
    )
    tokenizer.save_pretrained(folder)
    torch.manual_seed(7)
    made = transformers.BertConfig(
        vocab_size=len(tokens),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
        **config,
    )
    getattr(transformers, kind)(made).eval().save_pretrained(folder)


def sentence_model(folder: Path, pooling: str) -> None:
    from sentence_transformers import SentenceTransformer

    try:
        from sentence_transformers.models import Pooling, Transformer
    except ImportError:
        from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    bert(folder / "plain", "BertModel")
    body = Transformer(str(folder / "plain"))
    SentenceTransformer(modules=[body, Pooling(16, pooling_mode=pooling)], device="cpu").save(str(folder))


def opened(folder: Path, **options: Any) -> Any:
    embedder = load_embedder("tiny", "sentence_transformers", batch=2, threads=1, model=str(folder), **options)
    assert embedder is not None
    return embedder


def test_an_embedder_gives_unit_vectors_that_depend_on_their_own_text_alone(folder: Path) -> None:
    sentence_model(folder, "mean")
    embedder = opened(folder, query_prefix="water ", passage_prefix="")
    texts = ["the pump leaks", "a valve of cold water stays shut until spring comes back", "oil"]
    vectors = embedder.embed(texts)
    assert vectors.shape == (3, 16)
    assert vectors.dtype == np.float32
    assert embedder.dimension == 16
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(3), abs=1e-6)
    assert embedder.embed(texts[:1])[0] == pytest.approx(vectors[0], abs=1e-6)
    assert embedder.embed(["oil"], query=True)[0] == pytest.approx(embedder.embed(["water oil"])[0], abs=1e-6)
    assert embedder.count_tokens(texts) == [5, 13, 3]  # two special tokens each
    assert embedder.limit == 32


def test_a_text_pooled_late_as_one_span_is_the_mean_of_its_tokens_in_transformers(folder: Path) -> None:
    import torch
    import transformers

    sentence_model(folder, "mean")
    text = "the pump leaks oil at its shaft seal"
    first, last = (0, 14), (15, len(text))  # "the pump leaks" and the rest
    (found,) = embed_spans([LateDocument(text, "sha", (first, last, (0, len(text))))], opened(folder), None, stride=16)
    plain = transformers.AutoModel.from_pretrained(folder / "plain")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "plain")
    with torch.inference_mode():
        hidden = plain(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].numpy()
    for span, tokens in ((first, hidden[1:4]), (last, hidden[4:9]), ((0, len(text)), hidden[1:9])):
        mean = tokens.mean(axis=0)
        assert found[span] == pytest.approx(mean / np.linalg.norm(mean), abs=1e-5)


def test_a_document_longer_than_the_model_goes_through_in_windows(folder: Path) -> None:
    sentence_model(folder, "mean")
    embedder = opened(folder)
    text = " ".join(WORDS * 4)
    assert embedder.window == 30  # 32 positions without the two special tokens
    (found,) = embed_spans([LateDocument(text, "sha", ((0, 20), (len(text) - 20, len(text))))], embedder, None, stride=15)
    for vector in found.values():
        assert vector is not None
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


def test_late_chunking_of_a_model_that_does_not_average_is_refused_by_name(folder: Path) -> None:
    sentence_model(folder, "cls")
    with pytest.raises(EmbedderError, match="does not average its tokens"):
        embed_spans([LateDocument("the pump", "sha", ((0, 8),))], opened(folder), None, stride=16)


def test_a_cross_encoder_scores_each_pair_as_its_model_does(folder: Path) -> None:
    import torch
    import transformers

    bert(folder, "BertForSequenceClassification", num_labels=1)
    reranker = load_reranker({"kind": "cross_encoder", "model": str(folder), "device": "cpu", "batch": 2})
    assert reranker is not None
    passages = ["the pump leaks oil", "a valve stays shut", "cold water"]
    scores = reranker.score("the shaft seal leaks", passages)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with torch.inference_mode():
        logits = [float(model(**tokenizer("the shaft seal leaks", passage, return_tensors="pt")).logits[0, 0]) for passage in passages]
    assert scores == pytest.approx(logits, abs=1e-6)
    assert reranker.score("the shaft seal leaks", passages[2:]) == pytest.approx(scores[2:], abs=1e-5)
