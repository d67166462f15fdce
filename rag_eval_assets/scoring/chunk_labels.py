"""Chunks against what people said: where a cut is sensible, and which headings stand above a passage.

What belongs here: measures that need labels. What does not: the structural checks (`chunk_structure`) and all other measures of
chunks (`chunk_quality`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from ingestion.quotations import locate
from rag_eval_assets.scoring.chunk_rows import Row, rate_of
from rag_eval_assets.scoring.chunk_structure import Chunks, Document, folded

PATH_STEP = " > "
"""Parts one heading of a labelled path from the next."""


_SAYS = {True: "sensible", False: "not sensible"}


def labelled_cuts(index: Mapping[str, Chunks], documents: Mapping[str, Document], labels: Sequence[Row]) -> list[Row]:
    """Places right after a quotation, of which people said whether a chunk may sensibly end there.

    `cuts_sensible`: of the labelled places where this chunking ends a chunk, those called sensible. `cut_agreement`: of all labelled
    places, those where the structural check, by which a cut is good that cuts no table, list, numbered section or sentence, says
    the same. A label whose quotation is not in a document is left out and counted.
    """
    sensible: list[bool] = []
    table: Counter[tuple[bool, bool]] = Counter()
    unwise: list[str] = []
    lost = 0
    for label in labels:
        document = documents.get(label["doc_id"])
        place = locate(label["quotation"], document.text) if document else None
        if document is None or place is None:
            lost += 1
            continue
        said = label["value"] == "yes"
        table[said, document.may_end(place.end)] += 1
        if index[label["doc_id"]].end_at(place.end, document.text):
            sensible.append(said)
            unwise += [] if said else [f"{label['doc_id']}: {' '.join(label['quotation'].split())[-40:]}"]
    reason = "no_labels" if not labels else "not_locatable" if lost == len(labels) else "nothing_to_measure"
    missing = f"{lost} labels could not be located" if lost else None
    listed = "not sensible: " + "; ".join(unwise[:10]) if unwise else None
    split = ", ".join(f"{_SAYS[said]} / {_SAYS[check]} {table[said, check]}" for said in (True, False) for check in (True, False))
    return [
        rate_of("cuts_sensible", sum(sensible), len(sensible), reason=reason, detail=_joined(listed, missing)),
        rate_of(
            "cut_agreement",
            table[True, True] + table[False, False],
            table.total(),
            reason=reason,
            detail=_joined(f"people / check: {split}" if table else None, missing),
        ),
    ]


def _joined(*parts: str | None) -> str | None:
    return ". ".join(part for part in parts if part) or None


def labelled_paths(rows: list[Row], documents: Mapping[str, Document], labels: Sequence[Row]) -> list[Row]:
    """Chunks that hold the beginning of a labelled passage, whose parents equal the labelled ones.

    `parent_document`: labelled passages that stand in a chunk of their document at all. Of the chunks there, `parent_section`: the
    innermost heading, and `ancestry_path`: all headings equal. A chunk's headings are those it carries and those it begins with.
    """
    of_document: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        of_document[row["doc_id"]].append(row)
    there, chunks, section, path = 0, 0, 0, 0
    wrong: list[str] = []
    for label in labels:
        document = documents.get(label["doc_id"])
        place = locate(label["quotation"], document.text) if document else None
        if document is None or place is None:
            continue
        holding = [row for row in of_document[label["doc_id"]] if row["start"] <= place.start < row["end"]]
        there += bool(holding)
        wanted = [folded(heading) for heading in label["value"].split(PATH_STEP)]
        for row in holding:
            found = [folded(heading) for heading in document.path_of(row)]
            chunks += 1
            section += found[-1:] == wanted[-1:]
            path += found == wanted
            wrong += [] if found == wanted else [row["chunk_id"]]
    detail = f"differ: {', '.join(wrong[:10])}" if wrong else None
    reason = "nothing_to_measure" if labels else "no_labels"
    return [
        rate_of("parent_document", there, len(labels), reason=reason),
        rate_of("parent_section", section, chunks, reason=reason),
        rate_of("ancestry_path", path, chunks, reason=reason, detail=detail),
    ]
