"""The failures section of the page: each question that failed, with what was expected, answered, cited and delivered to the reader.

What belongs here: that section alone, under the rules of `sections`. What does not: why a question failed (rows of diagnosis).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from rag_eval_assets.report import facts, formats
from rag_eval_assets.report.facts import Row, Rows
from rag_eval_assets.report.pieces import ANSWERED, MOST_FAILURES, QUOTED, Tables, Values, parts_of, reason, rows_of
from rag_eval_assets.tables import NOT_APPLICABLE, OK, STAGES

_MOST_PASSAGES = 10
_MOST_EVIDENCE = 8


def failures(tables: Tables, split: str, pass_metric: str) -> list[Values]:
    """Every failed question of the split by system: what was asked, wanted, given, delivered, and where its evidence was lost."""
    questions = {r["question_id"]: r for r in rows_of(tables, "golden_questions")}
    evidence = _by_question(rows_of(tables, "golden_evidence"))
    shown = []
    systems = sorted({key for name in ("system_scores", "diagnosis", "evidence_funnel") for key in parts_of(tables, name)})
    for system in systems:
        part = {
            name: parts_of(tables, name).get(system, [])
            for name in ("system_scores", "diagnosis", "evidence_funnel", "contexts", "answers")
        }
        failed, says = facts.failed_questions(part["system_scores"], part["diagnosis"], part["evidence_funnel"], split, pass_metric)
        wanted = set(failed)
        by_question = {name: _by_question(r for r in rows if r["question_id"] in wanted) for name, rows in part.items()}
        told = []
        for qid in failed:
            found = {name: rows.get(qid, []) for name, rows in by_question.items()}
            told.append(_failure(qid, questions.get(qid), evidence.get(qid, []), found, pass_metric))
        told.sort(key=lambda f: (f["order"], f["id"]))
        lost = Counter(f["lost_at"] for f in told)
        asked = {
            r["question_id"]
            for r in part["system_scores"]
            if r["split"] == split and r["metric"] == pass_metric and r["status"] != NOT_APPLICABLE
        }
        shown.append({
            "system": system,
            "failed": len(told),
            "asked": len(asked) or None,
            "says": says,
            "implicated": implicated(part["diagnosis"], split),
            "by_stage": [(stage, n) for stage, n in sorted(lost.items(), key=lambda p: (-p[1], p[0]))],
            "items": told[:MOST_FAILURES],
            "more": max(0, len(told) - MOST_FAILURES),
        })  # fmt: skip
    return shown


def _by_question(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["question_id"]].append(row)
    return found


def _failure(qid: str, question: Row | None, evidence: Rows, found: Mapping[str, Rows], pass_metric: str) -> Values:
    lost = [r for r in found["evidence_funnel"] if r["status"] == OK and r["lost_at"]]
    order = list(STAGES)
    first = min((order.index(r["lost_at"]) for r in lost), default=order.index("answered"))
    answerable = question is None or question["answerable"]
    score = next((r for r in found["system_scores"] if r["metric"] == pass_metric), None)
    context = found["contexts"][0] if found["contexts"] else None
    spans = [(r["kept_doc_id"], r["start"], r["end"]) for r in evidence if r["kept_doc_id"]]
    return {
        "id": qid,
        "order": first,
        "lost_at": facts.stage_name(order[first]) if answerable else "refusal",
        "open_next": sorted({r["open_next"] for r in lost if r["open_next"]}) or ["system_scores"],
        "question": formats.readable(question["text"], ANSWERED) if question else "The question is not in the golden set.",
        "about": _about(question),
        "expected": _expected(question),
        "answer": _answer(found["answers"][0] if found["answers"] else None),
        "why": (formats.readable(score["explanation"], QUOTED) or reason(score["reason"])) if score else "",
        "diagnosis": _diagnosis(found["diagnosis"]),
        "groups": [
            {"group": r["group"], "lost_at": facts.stage_name(r["lost_at"]), "best_rank": r["best_rank"], "cited": r["cited"],
             "detail": formats.readable(r["detail"], QUOTED)}
            for r in found["evidence_funnel"] if r["status"] == OK
        ],
        "evidence": [_evidence(r) for r in evidence[:_MOST_EVIDENCE]],
        "evidence_more": max(0, len(evidence) - _MOST_EVIDENCE),
        "passages": _passages(context, spans),
        "delivered": _delivered(context),
    }  # fmt: skip


def _about(question: Row | None) -> list[str]:
    named = dict.fromkeys([question["language"], question["intent"], *question["kinds"]]) if question else ()
    return [formats.label(t, 60) for t in named if t]


def _expected(question: Row | None) -> str:
    if question is None:
        return formats.DASH
    if not question["answerable"]:
        return "A refusal: the corpus does not answer this question."
    return formats.readable(question["reference_answer"], ANSWERED) or "No reference answer is written down."


def _answer(row: Row | None) -> Values:
    if row is None:
        return {"text": "", "note": "There is no answer.", "citations": []}
    note = ""
    if row["status"] != OK:
        note = f"No answer: {reason(row['reason'])}" + (f" ({formats.readable(row['detail'], QUOTED)})" if row["detail"] else "")
    elif row["refused"]:
        note = "The system refused to answer."
    citations = [
        formats.readable(c["doc_id"], 120) + (f" [{c['position']}]" if c["position"] >= 0 else " (names no delivered passage)")
        if c["doc_id"] else "names no delivered passage"
        for c in row["citations"] or ()
    ]  # fmt: skip
    return {"text": formats.readable(row["answer"], ANSWERED), "note": note, "citations": list(dict.fromkeys(citations))}


def _diagnosis(rows: Rows) -> Values | None:
    told = [r for r in rows if r["label"] not in facts.NOT_IMPLICATED]
    if not told:
        return None
    results = {True: "recovered", False: "still failed"}
    tries = [
        (r["intervention"].replace("_", " "), results.get(r["recovered"]) or reason(r["reason"]) or "not tried")
        for r in sorted(told, key=lambda r: r["intervention"])
    ]
    whys = sorted({r["why"].replace("_", " ") for r in told if r["why"]})
    return {"label": ", ".join(sorted({r["label"].replace("_", " ") for r in told})), "why": ", ".join(whys), "tries": tries}


def implicated(rows: Rows, split: str) -> Values | None:
    """What replays of the split's failed questions say together: steps implicated, and of those ranked out how many a replay confirmed."""
    told = [r for r in rows if r["split"] == split and r["label"] not in facts.NOT_IMPLICATED]
    labels = {r["question_id"]: r["label"] for r in told}
    reordered = {r["question_id"] for r in told if r["recovered"] and (r["intervention"] == "larger_top_k" or "=" in r["intervention"])}
    ranked_out = {q for q, label in labels.items() if label == "ranked_out"}
    counts = Counter(labels.values())
    return {
        "labels": [(label.replace("_", " "), n) for label, n in sorted(counts.items(), key=lambda p: (-p[1], p[0]))],
        "confirmed": (len(ranked_out & reordered), len(ranked_out)) if ranked_out else None,
        "recovered": [
            (name.replace("_", " "), sum(r["recovered"] is True for r in tried), sum(r["recovered"] is not None for r in tried))
            for name in dict.fromkeys(r["intervention"] for r in told)
            if (tried := [r for r in told if r["intervention"] == name])
        ],
    } if labels else None  # fmt: skip


def _evidence(row: Row) -> Values:
    located = {
        "exact": "stands verbatim", "normalised": "stands after normalisation", "document": "whole document",
        "aligned": f"aligned at {formats.percent(row['similarity'])}",
    }.get(row["match"], "not located")  # fmt: skip
    moved = row["kept_doc_id"] and row["kept_doc_id"] != row["doc_id"]
    return {
        "group": row["group"],
        "document": formats.readable(row["doc_id"], 200),
        "moved_to": formats.readable(row["kept_doc_id"], 200) if moved else "",
        "quotation": formats.readable(row["quotation"], QUOTED),
        "located": located,
        "lost_at": facts.stage_name(row["lost_at"]),
        "found_text": formats.readable(row["found_text"], QUOTED) if row["lost_at"] or row["match"] == "aligned" else "",
        "entitled": row["entitled"],
    }


def _passages(context: Row | None, spans: Sequence[tuple[str, int | None, int | None]]) -> Values:
    passages = list(context["passages"] or ()) if context else []
    shown = []
    for p in passages[:_MOST_PASSAGES]:
        same = [(start, end) for document, start, end in spans if document == p["doc_id"]]
        holds = [s for s, e in same if s is not None and e is not None and s < (p["end"] or 0) and (p["start"] or 0) < e]
        shown.append({
            "position": p["position"], "rank": p["rank"], "document": formats.readable(p["doc_id"], 200),
            "text": formats.readable(p["text"], QUOTED), "gold": "gold passage" if holds else "gold document" if same else "",
        })  # fmt: skip
    return {"items": shown, "more": max(0, len(passages) - _MOST_PASSAGES)}


def _delivered(context: Row | None) -> str:
    if context is None:
        return "There is no context."
    if context["status"] != OK:
        return f"No context: {reason(context['reason'])}."
    cut = [
        formats.plural(len(context[name] or ()), "passage") + f" cut by {what}"
        for name, what in (("cut_by_budget", "the token budget"), ("cut_by_top_k", "top k")) if context[name]
    ]  # fmt: skip
    said = f"{formats.plural(len(context['passages'] or ()), 'passage')}, "
    said += "tokens unknown" if context["tokens"] is None else formats.plural(context["tokens"], "token")
    return ", ".join([said, *cut])
