"""A small evaluation folder that tests write and change: six short documents, nine questions, two chunkings, two systems."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from rag_eval_assets.settings import Folder

DOCUMENTS = {
    "returns.md": (
        "# Returns\n\nA customer may return an unused kettle within 30 days of delivery.\n\n## Exceptions\n\n"
        "Engraved kettles cannot be returned unless they arrive damaged.\n"
    ),
    "warranty.md": (
        "# Warranty\n\nThe heating element of the kettle is covered for five years.\n\nThe lid and the cord are covered for two years.\n"
    ),
    "descaling.txt": (
        "Descaling the kettle\n\nFill the kettle with one litre of water and 50 ml of vinegar. Bring it to the boil twice, then rinse.\n"
        "Descale every eight weeks where the water is hard.\n"
    ),
    "shipping.md": "# Shipping\n\nParcels leave the warehouse in Zwolle before noon. Islands take two extra working days.\n",
    "safety.txt": "Safety\n\nNever immerse the base in water. The base switches off when the kettle is lifted.\n",
    "spare-parts.md": "# Spare parts\n\n| Part | Number |\n|---|---|\n| Lid | KT-204 |\n| Filter | KT-311 |\n\nFilters fit every kettle since 2019.\n",
}

_SPLITS = {"returns.md": "development", "warranty.md": "development", "descaling.txt": "development", "shipping.md": "release",
           "safety.txt": "release", "spare-parts.md": "release"}  # fmt: skip


def question(number: int, text: str, answer: str, document: str, quotation: str, **more: Any) -> dict[str, Any]:
    """One golden line."""
    return {
        "id": f"q{number}", "question": text, "reference_answer": answer, "split": _SPLITS[document], "language": "en", "intent": "lookup",
        "kinds": ["lookup"], "evidence": [{"group": "g1", "document": document, "quotation": quotation}], **more,
    }  # fmt: skip


QUESTIONS = [
    question(1, "How long may an unused kettle be returned?", "30 days", "returns.md", "within 30 days of delivery"),
    question(2, "Can engraved kettles be returned?", "cannot be returned unless they arrive damaged", "returns.md", "Engraved kettles cannot be returned unless they arrive damaged"),
    question(3, "How many years is the heating element covered?", "five years", "warranty.md", "The heating element of the kettle is covered for five years."),
    question(4, "How much vinegar is needed for descaling the kettle?", "50 ml of vinegar", "descaling.txt", "one litre of water and 50 ml of vinegar"),
    question(5, "How often should the kettle be descaled in hard water?", "every eight weeks", "descaling.txt", "Descale every eight weeks where the water is hard."),
    question(6, "From which city do parcels leave?", "Zwolle", "shipping.md", "Parcels leave the warehouse in Zwolle before noon."),
    question(7, "May the base be immersed in water?", "Never immerse the base in water", "safety.txt", "Never immerse the base in water."),
    question(8, "Which kettles do the filters fit?", "every kettle since 2019", "spare-parts.md", "Filters fit every kettle since 2019."),
    {"id": "q9", "question": "Does the company sell toasters?", "answerable": False, "split": "release", "language": "en", "intent": "range", "kinds": ["unanswerable"]},
]  # fmt: skip

SETTINGS: dict[str, Any] = {
    "name": "small",
    "parsers": {"unstructured": {"kind": "unstructured", "classes": ["markdown", "text"]}},
    "parser_of": {"markdown": "unstructured", "text": "unstructured"},
    "limits": {"workers": 1},
    "dedup": {"sweep_permutations": [64], "sweep_thresholds": [0.8]},
    "chunkings": [{"strategy": "window", "size": [16], "overlap": [0]}, {"strategy": "whole"}],
    "retrievers": {"bm25": {"kind": "bm25"}},
    "scoring": {"ks": [1, 5, 10], "token_budgets": [50], "depth": 20},
    "systems": {
        "first": {"chunking": "window-16-o0", "retriever": "bm25", "depth": 10, "top_k": 3},
        "second": {"chunking": "whole", "retriever": "bm25", "depth": 10, "top_k": 2},
    },
    "gates": {"mrr": {"source": "system_summary", "metric": "RR", "at_least": 0.1, "starting_value": True}},
    "slices": ["intent"],
}


def write_settings(path: Path, changes: Mapping[str, Any] | None = None) -> None:
    """evaluation.yaml of the small folder, top-level keys replaced by `changes`."""
    (path / "evaluation.yaml").write_text(yaml.safe_dump({**SETTINGS, **(changes or {})}, sort_keys=False))


def write_questions(path: Path, questions: list[dict[str, Any]]) -> None:
    (path / "golden").mkdir(parents=True, exist_ok=True)
    (path / "golden" / "questions.jsonl").write_text("".join(json.dumps(q) + "\n" for q in questions))


def small_folder(path: Path, changes: Mapping[str, Any] | None = None) -> Folder:
    """Write the small evaluation folder below `path`."""
    (path / "corpus").mkdir(parents=True)
    for name, text in DOCUMENTS.items():
        (path / "corpus" / name).write_text(text, encoding="utf-8")
    write_questions(path, QUESTIONS)
    write_settings(path, changes)
    return Folder(path)
