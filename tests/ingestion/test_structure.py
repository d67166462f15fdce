"""Parts of documents kept as parts, on cases worked by hand."""

from __future__ import annotations

from typing import Any

from ingestion.structure import apart, cells, headings, leaked, lists


def element(text: str, category: str = "NarrativeText", page: int | None = 1) -> dict[str, Any]:
    return {"text": text, "category": category, "page": page}


def test_headings_count_only_in_the_order_of_the_reference() -> None:
    wanted = ["Safety", "Filling the pump", "Cleaning"]
    parsed = [element(text, "Title") for text in ("Safety", "Cleaning", "Fi11ing the pump", "Advertisement")]
    missed, invented = headings(wanted, parsed)
    # Safety and one of the two that changed places: two of three found, two of four titles are none of the reference's in order.
    assert (missed.missed, missed.units, missed.cases) == (1, 3, ("Filling the pump",))
    assert (invented.missed, invented.units) == (2, 4)
    assert "Advertisement" in invented.cases


def test_a_heading_read_as_text_is_missing() -> None:
    missed, invented = headings(["Safety"], [element("Safety")])
    assert (missed.missed, missed.units, invented.missed, invented.units) == (1, 1, 0, 0)


def test_a_list_is_whole_only_with_every_item_its_own_and_nothing_between() -> None:
    items = [element(text, "ListItem") for text in ("open the lid", "2. fill in water", "close it")]
    gold = ["Open the lid\nFill in water\nClose it"]
    assert lists(gold, items).missed == 0
    assert lists(gold, [items[0], element("7", "PageNumber"), *items[1:]]).missed == 0  # a page may end inside it
    assert lists(gold, [items[0], element("Note."), *items[1:]]).missed == 1
    assert lists(gold, items[:2]).missed == 1
    assert lists(gold, [element("open the lid 2. fill in water", "ListItem"), items[2]]) == (1, 1, ("Open the lid",))


def test_a_footnote_run_into_the_text_is_lost_and_its_mark_is_no_part_of_it() -> None:
    assert apart(["Not in winter."], [element("¹ Not in winter.", "Footnote")]).missed == 0
    assert apart(["Not in winter."], [element("1 Not in winter.", "Footnote")]).missed == 0
    assert apart(["Not in winter."], [element("The pump runs. Not in winter.")]).missed == 1


def test_cells_are_counted_as_often_as_they_stand_and_whatever_their_place() -> None:
    gold = "<table><tr><th>Size</th><th>Price</th></tr><tr><td>1</td><td>10</td></tr><tr><td>2</td><td>10</td></tr></table>"
    same = "<table><tr><td>Price</td><td>Size</td><td>10</td></tr><tr><td>1</td><td>2</td><td>10</td></tr></table>"
    assert cells(gold, same).missed == 0
    assert cells(gold, "<table><tr><td>Size Price</td><td>10</td></tr></table>") == (5, 6, ("1", "10", "2", "price", "size"))
    assert cells(gold, None).missed == 6


def test_a_running_head_in_the_text_leaks_and_one_that_was_recognised_does_not() -> None:
    def page(number: int, head: str) -> list[dict[str, Any]]:
        return [element(f"Pump manual {number}", head, number), element(f"Text of page {number * 'x'}.", page=number),
                element(f"And more {number * 'z'} of it.", page=number), element(f"Its end {number * 'y'}.", page=number)]  # fmt: skip

    recognised = [row for number in (1, 2, 3) for row in page(number, "Header")]
    leaking = [*page(1, "Header"), *page(2, "NarrativeText"), *page(3, "Header")]
    assert leaked("Text of page x.", recognised) == (0, 3, ())
    assert leaked("Text of page x.", leaking) == (1, 3, ("page 2: Pump manual 2",))


def test_a_line_that_the_transcript_holds_is_no_running_head() -> None:
    rows = [element("Total", page=1), element("a", page=1), element("Total", page=2), element("b", page=2)]
    assert leaked("Total a Total b", rows).missed == 0
