"""A subset of questions is drawn the same everywhere, from every stratum by its share, into a folder with a state of its own."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from rag_eval_assets.golden import read_golden
from rag_eval_assets.settings import Folder
from rag_eval_assets.subset import draw, write_subset
from tests.small import small_folder

STRATA = {f"q{n:03}": ("release" if n % 3 else "development", "nl" if n % 10 == 0 else "en") for n in range(240)}


def test_every_stratum_gives_its_share() -> None:
    chosen = draw(STRATA, 50, seed=7)
    assert len(chosen) == len(set(chosen)) == 50
    whole, drawn = Counter(STRATA.values()), Counter(STRATA[name] for name in chosen)
    for stratum, count in whole.items():
        assert abs(drawn[stratum] - 50 * count / 240) < 1


def test_the_draw_depends_on_the_seed_alone_and_moves_little_when_a_question_is_added() -> None:
    chosen = draw(STRATA, 50, seed=7)
    assert draw(dict(reversed(STRATA.items())), 50, seed=7) == chosen
    assert draw(STRATA, 50, seed=8) != chosen
    assert len(set(draw({**STRATA, "q999": ("release", "en")}, 50, seed=7)) - set(chosen)) <= 2


def test_a_small_set_is_drawn_whole() -> None:
    assert draw({"b": ("x",), "a": ("y",)}, 50, seed=7) == ["a", "b"]
    with pytest.raises(ValueError, match="one or more"):
        draw({"a": ("x",)}, 0, seed=7)


def test_the_folder_reads_like_any_other_and_keeps_its_own_state(tmp_path: Path) -> None:
    folder = small_folder(tmp_path / "whole")
    (folder.path / "labels").mkdir()
    target, splits = write_subset(folder, number=4)
    small = Folder(target)
    rows = read_golden(small.golden, {path.name for path in folder.corpus.iterdir()})
    original = {row["question_id"]: row for row in read_golden(folder.golden)}
    assert len(rows) == sum(splits.values()) == 4
    assert all({**row, "line": 0} == {**original[row["question_id"]], "line": 0} for row in rows)
    assert target == folder.path / ".rag_eval" / "pr"
    assert small.state == target / ".rag_eval"
    assert small.settings == folder.settings
    assert {link.name for link in target.iterdir() if link.is_symlink()} == {"corpus", "labels", "evaluation.yaml"}


def test_written_again_it_follows_the_folder_and_touches_nothing_that_is_the_same(tmp_path: Path) -> None:
    folder = small_folder(tmp_path / "whole")
    target, _ = write_subset(folder, tmp_path / "few", number=3)
    questions = target / "golden" / "questions.jsonl"
    before = questions.stat().st_mtime_ns
    (folder.path / "policy.yaml").write_text("claims: {}")
    (target / "golden" / "gone.jsonl").write_text("")
    write_subset(folder, target, number=3)
    assert questions.stat().st_mtime_ns == before
    assert [path.name for path in (target / "golden").iterdir()] == ["questions.jsonl"]
    assert (target / "policy.yaml").read_text() == "claims: {}"
    (folder.path / "policy.yaml").unlink()
    write_subset(folder, target, number=2)
    assert not (target / "policy.yaml").is_symlink()
    assert len(questions.read_text().splitlines()) == 2
    assert all(json.loads(line)["id"] for line in questions.read_text().splitlines())


def test_a_folder_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(FileExistsError, match="no subset"):
        write_subset(small_folder(tmp_path / "whole"), tmp_path / "mine")
