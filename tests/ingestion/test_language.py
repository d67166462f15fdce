from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from ingestion.language import identify


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "The heating element is covered by the warranty for five years after purchase."),
        ("nl", "Het verwarmingselement valt tot vijf jaar na aankoop onder de garantie."),
        ("de", "Das Heizelement ist nach dem Kauf fünf Jahre lang durch die Garantie abgedeckt."),
        ("de", "DAS HEIZELEMENT IST NACH DEM KAUF FÜNF JAHRE LANG DURCH DIE GARANTIE ABGEDECKT."),
    ],
)
def test_a_sentence_is_identified_with_a_probability(language: str, text: str) -> None:
    identified, probability = identify(text)
    assert identified == language
    assert 0.9 < probability <= 1


@pytest.mark.parametrize("text", ["", "42", "12.50 | 13.00 | 14.75\n2019 2020 2021", "Menu", "\u200b\u00ad"])
def test_a_text_with_too_few_letters_is_undetermined(text: str) -> None:
    assert identify(text) == ("und", 0.0)


def test_the_choice_can_be_restricted() -> None:
    assert identify("De pomp wordt elke twaalf maanden nagekeken.", ("en", "de"))[0] in ("en", "de")
    assert identify("De pomp wordt elke twaalf maanden nagekeken.")[0] == "nl"


def test_a_long_text_is_judged_by_its_beginning_and_middle() -> None:
    dutch = "Het verwarmingselement valt tot vijf jaar na aankoop onder de garantie. " * 400
    assert identify("Warranty terms\n" + dutch)[0] == "nl"


@pytest.mark.reference
@pytest.mark.parametrize("language", ["en", "de", "es"])
def test_parallel_paragraphs_are_identified_in_each_language(shared: Path, language: str) -> None:
    corpus = shared / "retrieval" / f"xquad_{language}" / "corpus.jsonl"
    texts = [json.loads(line)["text"] for line in corpus.read_text(encoding="utf-8").splitlines()]
    assert len(texts) == 240
    assert sum(identify(text)[0] == language for text in texts) >= 238


@pytest.mark.reference
def test_parallel_questions_are_identified_although_they_are_short(shared: Path) -> None:
    """1,190 questions each of XQuAD, half of them under 64 characters, among all the languages that the model knows."""
    gold: Counter[str] = Counter()
    read: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for name in ("en", "de", "es"):
        for line in (shared / "retrieval" / f"xquad_{name}" / "queries.jsonl").read_text(encoding="utf-8").splitlines():
            found, _ = identify(json.loads(line)["text"])
            gold[name] += 1
            read[found] += 1
            right[name] += found == name
    f1 = {name: 2 * right[name] / (gold[name] + read[name]) for name in gold}
    print("\n" + ", ".join(f"{name} F1 {value:.4f}" for name, value in f1.items()))
    assert set(gold.values()) == {1190}
    assert f1["en"] >= 0.985
    assert f1["de"] >= 0.99
    assert f1["es"] >= 0.99
