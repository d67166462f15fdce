"""Lines of progress: now and then, with the time left at the pace so far."""

from __future__ import annotations

from rag_eval_assets.progress import Paced


def told(calls: list[tuple[float, str, int, int]]) -> list[str]:
    """What is said of calls (second, node, done, total) with a line every ten seconds."""
    now, lines = [0.0], list[str]()
    paced = Paced(lines.append, every=10, clock=lambda: now[0])
    for second, node, done, total in calls:
        now[0] = second
        paced(node, done, total)
    return lines


def test_a_line_comes_every_ten_seconds_and_tells_the_time_left_at_the_pace_so_far() -> None:
    # 100 rows in the first ten seconds after the first, so 400 more take 40; then 200 in 20 seconds, so the last 300 take 30.
    assert told([(0, "answers[a]", 0, 500), (5, "answers[a]", 40, 500), (10, "answers[a]", 100, 500), (12, "answers[a]", 120, 500),
                 (20, "answers[a]", 200, 500)]) == ["answers[a]: 100 of 500, about 40 s left", "answers[a]: 200 of 500, about 30 s left"]  # fmt: skip


def test_long_waits_are_told_in_minutes_and_rows_that_were_there_before_do_not_count_as_pace() -> None:
    # 10 rows in 10 seconds; the 900 before them were read back at once. 590 rows at one a second are close to ten minutes.
    assert told([(0, "n", 900, 1_500), (10, "n", 910, 1_500)]) == ["n: 910 of 1500, about 10 min left"]


def test_each_asset_partition_has_a_pace_of_its_own() -> None:
    assert told([(0, "a", 0, 10), (9, "a", 9, 10), (11, "b", 1, 100), (21, "b", 11, 100)]) == ["b: 11 of 100, about 89 s left"]
