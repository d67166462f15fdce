"""Entailment scorers by path: a real ONNX file gives the probabilities that its weights say."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import Any

import pytest

from rag_eval_assets.resources import scorers
from rag_eval_assets.resources.scorers import load_scorer
from tests.resources.tiny_onnx import write_classifier

WEIGHTS = {"lid": (0.5, 0.0, 0.0), "red": (0.25, 0.0, 0.5), "not": (-2.0, 0.0, 1.0), "toaster": (-1.0, 1.0, 0.0)}


def chosen(**more: Any) -> dict[str, Any]:
    return {
        "kind": "onnx",
        "model": "model.onnx",
        "tokenizer": "tokenizer.json",
        "entailment": 0,
        "max_tokens": 32,
        "version": None,
        **more,
    }


def softmax(logits: tuple[float, ...], label: int) -> float:
    return math.exp(logits[label]) / sum(map(math.exp, logits))


def test_a_pair_gets_the_probability_of_the_named_label(tmp_path: Path) -> None:
    write_classifier(tmp_path, WEIGHTS)
    scorer = load_scorer(chosen(), tmp_path)
    assert scorer is not None
    found = scorer.score([("The lid is red.", "The lid is not red."), ("lid", "red")])
    # lid, red, lid, not, red: .5 + .25 + .5 - 2 + .25 and .5 + 1 + .5; then lid and red.
    assert found == [pytest.approx(softmax((-0.5, 0.0, 2.0), 0), abs=1e-6), pytest.approx(softmax((0.75, 0.0, 0.5), 0), abs=1e-6)]
    other = load_scorer(chosen(entailment=2), tmp_path)
    assert other is not None
    assert other.score([("lid", "red")]) == [pytest.approx(softmax((0.75, 0.0, 0.5), 2), abs=1e-6)]


def test_one_logit_is_read_through_the_sigmoid(tmp_path: Path) -> None:
    write_classifier(tmp_path, {"lid": (1.5,), "not": (-3.0,)})
    scorer = load_scorer(chosen(), tmp_path)
    assert scorer is not None
    assert scorer.score([("lid", "lid"), ("lid", "not lid")]) == [
        pytest.approx(1 / (1 + math.exp(-3.0)), abs=1e-6), pytest.approx(0.5, abs=1e-6),
    ]  # fmt: skip


def test_a_pair_scores_the_same_whatever_pairs_stand_beside_it(tmp_path: Path) -> None:
    write_classifier(tmp_path, WEIGHTS)
    scorer = load_scorer(chosen(), tmp_path)
    assert scorer is not None
    pairs = [("lid " * (n % 9 + 1), "red") for n in range(40)]
    assert scorer.score(pairs) == pytest.approx([scorer.score([pair])[0] for pair in pairs], abs=1e-7)


def test_of_a_pair_that_is_too_long_the_passage_is_cut_and_never_the_claim(tmp_path: Path) -> None:
    write_classifier(tmp_path, {"lid": (1.0,), "not": (-3.0,)})
    scorer = load_scorer(chosen(max_tokens=8), tmp_path)
    assert scorer is not None
    # Eight tokens: six of the passage, the mark between, and the claim's one.
    assert scorer.score([("lid " * 50, "not")]) == [pytest.approx(1 / (1 + math.exp(-(6 - 3))), abs=1e-6)]


def test_a_label_that_the_model_lacks_and_an_input_of_another_kind_of_model_are_errors(tmp_path: Path) -> None:
    write_classifier(tmp_path, WEIGHTS)
    scorer = load_scorer(chosen(entailment=3), tmp_path)
    assert scorer is not None
    with pytest.raises(ValueError, match="label 3 is none of the model's 3"):
        scorer.score([("lid", "red")])
    write_classifier(tmp_path / "other", WEIGHTS, input_name="pixel_values")
    with pytest.raises(ValueError, match="'pixel_values' is none of a sequence classifier's"):
        load_scorer(chosen(), tmp_path / "other")
    with pytest.raises(FileNotFoundError):
        load_scorer(chosen(model="gone.onnx"), tmp_path)


def test_without_the_libraries_there_is_no_scorer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_classifier(tmp_path, WEIGHTS)
    monkeypatch.setattr(scorers, "find_spec", lambda name: None if name == "onnxruntime" else importlib.util.find_spec(name))
    assert load_scorer(chosen(), tmp_path) is None


def test_a_function_of_ones_own_is_called_with_the_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_scores.py").write_text("def held(pairs):\n    return [len(h) / 10 for _, h in pairs]\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    scorer = load_scorer(chosen(kind="function", model="mine_scores:held", tokenizer=None, version="1"), tmp_path)
    assert scorer is not None
    assert scorer.score([("a", "12345"), ("b", "1")]) == [0.5, 0.1]
