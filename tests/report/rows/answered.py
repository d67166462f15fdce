"""Hand-made rows of questions, answers, judges, costs and decisions."""

from __future__ import annotations

from typing import Any

from ingestion.rates import clopper_pearson
from rag_eval_assets.tables import STAGES
from tests.report.rows.made import SYSTEMS, Row, Tables, make_row


def experiments() -> list[Row]:
    plan = [("top_k", "3", 0.5, False), ("top_k", "5", 0.6, True), ("top_k", "10", 0.65, False), ("gold_place", "as delivered", 0.6, True),
            ("gold_place", "first", 0.7, False), ("gold_place", "middle", 0.45, False), ("gold_place", "last", 0.64, False)]  # fmt: skip
    rows = [
        make_row("replay_experiments", experiment=experiment, point=point, place=place, as_it_is=own, split="development", metric="correct",
                 questions=112, mean=mean, lower=mean - 0.1, upper=mean + 0.1, tokens=812.4, paired=0 if own else 112,
                 difference=None if own else mean - 0.6, difference_lower=None if own else mean - 0.68,
                 difference_upper=None if own else mean - 0.52, changed=0 if own else 97, generated=0 if own else 91,
                 reused=112 if own else 21, status="scored")
        for place, (experiment, point, mean, own) in enumerate(plan)
    ]  # fmt: skip
    return [*rows, make_row("replay_experiments", experiment="top_k", point="80", place=7, split="development", metric="correct",
                            status="not_applicable", reason="not_replayable", detail="the ranking was recorded to depth 50")]  # fmt: skip


def costs() -> list[Row]:
    plan = {
        "reply_seconds": ("total", 1.25, 3.5, 4.75),
        "first_token_seconds": ("first_token", 0.25, 0.75, 1.5),
        "cost": ("query", 0.002, 0.004, 0.009),
    }
    rows = [
        make_row("system_costs", split=split, measure=measure, stage=stage, unit="s", p50=p50, p95=p95, p99=p99, mean=p50, total=60 * p50,
                 questions=60, scored=58, failed=2, status="scored")
        for split in ("development", "release")
        for measure, (stage, p50, p95, p99) in plan.items()
    ]  # fmt: skip
    shared = {"split": "release", "questions": 60, "scored": 60, "status": "scored"}
    seconds = {"run_p50": 0.125, "run_p95": 0.25, "run_p99": 0.5, "run_mean": 0.15, "run_total": 9.0}
    rows.append(make_row("system_costs", measure="retrieval_seconds", stage="retrieval", unit="s", **seconds, **shared))
    rows.append(make_row("system_costs", measure="reply_hits", stage="cache", unit="share", run_mean=0.75, run_total=45.0, **shared))
    return rows


def questions_and_answers() -> Tables:
    """46 release questions per system; every fourth one is wrong, each lost at another stage."""
    stages = ["parsed", "kept", "filtered", "exact_search", "ranked", "in_context", "answered", "answered"]
    tables: Tables = {
        "golden_questions": {None: []}, "golden_evidence": {None: []}, "evidence_funnel": {}, "answers": {}, "contexts": {},
        "system_scores": {}, "diagnosis": {},
    }  # fmt: skip
    for system in SYSTEMS:
        for table in ("evidence_funnel", "answers", "contexts", "system_scores", "diagnosis"):
            tables[table][system] = []
    labels = {
        "exact_search": "retrieval_miss", "ranked": "ranked_out", "in_context": "context_assembly_loss", "answered": "generation_failure",
        "filtered": "filtered_out",
    }  # fmt: skip
    for n in range(46):
        qid = f"rel-{n:03d}"
        doc = f"manuals/pump-p{n % 7}.pdf"
        answerable = n % 11 != 5
        quotation = f"The P{n % 7} pump must be descaled every {200 + n} operating hours, or sooner when the red lamp blinks."
        tables["golden_questions"][None].append(
            make_row(
                "golden_questions", question_id=qid, text=f"After how many operating hours is the P{n % 7} descaled?", split="release",
                reference_answer=f"After {200 + n} operating hours." if answerable else None, answerable=answerable,
                language=("en", "nl", "de")[n % 3], intent=("lookup", "how_to", "compare")[n % 3], kinds=["lookup", "distractor"],
                slices="{}", entitlement="{}",
                evidence=[{"group": "a", "document": doc, "quotation": quotation, "grade": 1}] if answerable else [],
            )
        )  # fmt: skip
        if answerable:
            tables["golden_evidence"][None].append(
                make_row(
                    "golden_evidence", question_id=qid, label="evidence", group="a", item=0, doc_id=doc, kept_doc_id=doc,
                    quotation=quotation,
                    start=100, end=190, grade=1, match="exact", similarity=1.0, entitled=True, eligible=True, status="ok",
                    lost_at="parsed" if n % 4 == 0 and stages[n // 4 % 8] == "parsed" else None,
                    found_text="The P0 pump rnust be descaIed every 2OO operating hours" if n % 4 == 0 else None,
                )
            )  # fmt: skip
        for s, system in enumerate(SYSTEMS):
            failed = n % (4 + s) == 0
            lost = stages[n // 4 % len(stages)] if failed and answerable else None
            shared = {"question_id": qid, "split": "release"}
            order = list(STAGES)
            tables["evidence_funnel"][system].append(
                make_row(
                    "evidence_funnel", **shared, group="a", lost_at=lost, open_next=STAGES[lost] if lost else None,
                    furthest="answered" if not lost else order[order.index(lost) - 1], cited=not lost,
                    best_rank=None if lost in ("parsed", "kept", "filtered", "exact_search") else 4 + n % 3, status="ok",
                ) if answerable else make_row("evidence_funnel", **shared, group="", status="not_applicable", reason="unanswerable")
            )  # fmt: skip
            passage = {
                "position": 1, "rank": 1, "chunk_id": f"{doc}#0-300", "doc_id": doc, "start": 0, "end": 300, "tokens": 61,
                "text": "Maintenance. " + "Rinse the reservoir with clear water and let it dry before refilling. " * 6,
            }  # fmt: skip
            tables["contexts"][system].append(
                make_row(
                    "contexts", **shared,
                    passages=[passage, passage | {"position": 2, "rank": 3, "text": "Warranty terms are in chapter 9."}],
                    tokens=72, cut_by_budget=[f"{doc}#300-600"] if lost == "in_context" else [], context_truncated=lost == "in_context",
                    context_sha256="0" * 64, status="ok",
                )
            )  # fmt: skip
            refused = not answerable and not failed
            wrong = "Rinse the reservoir with clear water. [1]"
            tables["answers"][system].append(
                make_row(
                    "answers", **shared, answer="" if refused else wrong if failed else f"After {200 + n} hours. [1]",
                    refused=refused, citations=[passage_citation(passage)], reader="extractive", context_sha256="0" * 64,
                    status="failed" if n == 16 else "ok", reason="timeout" if n == 16 else None,
                    detail="no reply within 30 s" if n == 16 else None,
                )
            )  # fmt: skip
            tables["system_scores"][system].append(
                make_row(
                    "system_scores", **shared, metric="correct", k=0, cutoff="none", unit="question", stage="answer",
                    value=None if n == 16 else 0.0 if failed else 1.0, status="failed" if n == 16 else "scored",
                    reason="upstream_failed" if n == 16 else None,
                    explanation="token F1 0.21, the number in the reference is not in the answer" if failed else None,
                )
            )  # fmt: skip
            tables["diagnosis"][system].append(
                make_row(
                    "diagnosis", **shared, intervention="gold_context", recovered=lost != "answered" if failed else None,
                    label=labels.get(lost or "", "evidence_lost_in_ingestion" if lost else "generation_failure") if failed else "none",
                    why="fails_with_gold_context" if lost == "answered" else "relevant_not_retrieved" if failed else None,
                    best_rank=5 if failed else None, result_id="x", status="scored" if failed else "not_applicable",
                    reason=None if failed else "not_failed",
                )
            )  # fmt: skip
    return tables


def passage_citation(passage: Row) -> Row:
    return {k: passage[k] for k in ("position", "chunk_id", "doc_id", "start", "end")} | {"quotation": passage["text"][:40]}


def judges() -> Tables:
    """Two judges against 60 labels, one that follows the place, three rates of which one cannot be corrected."""
    rates = {
        ("panel", "claim_faithfulness"): {"accuracy": (0.9, 54, 60), "false_approval_rate": (0.1, 2, 20), "false_rejection_rate": (0.1, 4, 40)},
        ("small-model-of-a-long-name", "preference"): {"accuracy": (0.55, 33, 60)},
    }  # fmt: skip
    audit = [
        make_row("judge_audit", judge=judge, metric=metric, measure=measure, value=value, labels=labels, may_gate=judge == "panel",
                 lower=clopper_pearson(hits, labels)[0], upper=clopper_pearson(hits, labels)[1], status="scored")
        for (judge, metric), own in rates.items()
        for measure, (value, hits, labels) in own.items()
    ]  # fmt: skip
    pair = {"judge": "panel", "candidate": "hybrid-512", "other": "baseline", "split": "release"}
    verdicts = ["candidate"] * 22 + ["tie"] * 6 + ["other"] * 12
    compared = [
        make_row("preferences", **pair, question_id=f"p{n:02}", when_first=first, when_second=second, consistent=first == second,
                 value=0.5, status="scored")
        for n, (first, second) in enumerate(zip(verdicts, verdicts[4:] + ["other"] * 4, strict=True))
    ]  # fmt: skip
    consistent = sum(r["consistent"] for r in compared)
    summary = [
        make_row("preference_summary", **pair, measure=measure, value=value, lower=value - 0.15, upper=value + 0.15, questions=40, failed=1,
                 status="scored")
        for measure, value in (("win_rate_first", 0.625), ("win_rate_second", 0.525), ("swap_consistency", consistent / 40))
    ]  # fmt: skip
    summary.append(make_row("preference_summary", **pair, measure="win_rate", status="not_applicable", reason="orders_not_aggregated"))
    known = {"split": "release", "sensitivity": 0.9, "approved_labels": 40, "specificity": 0.9, "rejected_labels": 20, "questions": 50}
    corrected = [
        make_row("corrected_rates", metric=f"{name}@panel", method="Rogan-Gladen", apparent=apparent, **known | more)
        for name, apparent, more in (
            ("claim_faithfulness", 0.8, {"value": 0.875, "lower": 0.69, "upper": 1.0, "status": "scored"}),
            ("ragas_faithfulness", 0.6, {"value": 0.625, "lower": 0.42, "upper": 0.81, "status": "scored"}),
            ("entailment", 0.4, {"specificity": None, "rejected_labels": 0, "status": "not_applicable", "reason": "no_labels"}),
        )
    ]
    return {
        "judge_audit": {None: audit}, "preferences": {None: compared}, "preference_summary": {None: summary},
        "corrected_rates": {"baseline": corrected, "hybrid-512": []},
    }  # fmt: skip


def gates() -> list[Row]:
    def gate(name: str, scope: str, value: float | None, lower: float | None, upper: float | None, threshold: float, **more: Any) -> Row:
        shared = {"direction": "at_least", "questions": 38, "coverage": 1.0, "starting_value": True}
        return make_row("gate_results", gate=name, scope=scope, value=value, lower=lower, upper=upper, threshold=threshold, **shared | more)

    return [
        gate("recall_at_10", "baseline", 0.8712, 0.7612, 0.9592, 0.85, decision="INSUFFICIENT_EVIDENCE",
             decision_reason="interval_straddles_threshold"),
        gate("recall_at_10", "hybrid-512", 0.9148, 0.8661, 0.9811, 0.85, decision="PASS", decision_reason="lower_limit_over_threshold"),
        gate("mrr", "baseline", 0.5904, 0.48, 0.5999, 0.6, decision="FAIL", decision_reason="upper_limit_under_threshold"),
        gate("ann_recall_at_10", "recursive-512-o64", 0.9671, 0.9582, 0.9744, 0.95, decision="PASS",
             decision_reason="lower_limit_over_threshold"),
        gate("false_exclusion", "corpus", 0.013, 0.0, 0.0191, 0.02, direction="at_most", decision="PASS",
             decision_reason="upper_limit_under_threshold"),
        gate("cer_scan", "scan", None, None, None, 0.1, direction="at_most", coverage=0.75, questions=4, starting_value=False,
             decision="INSUFFICIENT_EVIDENCE", decision_reason="coverage_short", detail="3 of 4 references scored"),
        gate("latency_p95", "baseline", 1.84, 1.61, 2.2, 2.5, direction="at_most", decision="PASS", starting_value=False,
             decision_reason="upper_limit_under_threshold"),
    ]  # fmt: skip


def comparison() -> dict[str | None, list[Row]]:
    shared = {"baseline": "2.3", "cutoff": "rank", "unit": "document", "split": "release", "paired": 37, "missing": 1, "status": "scored"}
    changed = '{"chunking": ["window-256-o0", "recursive-512-o64"], "top_k": [5, 8]}'
    return {
        "baseline": [make_row("comparison", baseline="none", metric="all", split="all", status="not_applicable", reason="no_baseline",
                              decision="INSUFFICIENT_EVIDENCE", decision_reason="no_baseline", what_changed="{}")],
        "hybrid-512": [
            make_row("comparison", **shared, metric="nDCG", k=10, difference=0.0371, lower=0.0011, upper=0.0742, decision="PASS",
                     decision_reason="non_inferior", what_changed=changed),
            make_row("comparison", **shared | {"cutoff": "none", "unit": "question"}, metric="correct", k=0, difference=-0.0263,
                     lower=-0.1432, upper=0.0912, decision="INSUFFICIENT_EVIDENCE", decision_reason="interval_holds_margin",
                     what_changed=changed),
        ],
    }  # fmt: skip


def coverage() -> list[Row]:
    rows = []
    for split, many in (("development", 4), ("release", 2)):
        for i, intent in enumerate(("compare", "how_to", "lookup")):
            for d, doc_class in enumerate(("docx", "html", "pdf", "scan")):
                for x, language in enumerate(("de", "en", "nl")):
                    rows.append(
                        make_row("golden_coverage", kind="cell", split=split, intent=intent, doc_class=doc_class, language=language,
                                 questions=max(0, many * (3 - i) - d * 2 - x))
                    )  # fmt: skip
        for metric, n, half in (("correct", 46, 0.1157), ("R@10", 38, 0.1273)):
            rows.append(make_row("golden_coverage", kind="half_width", split=split, intent="*", doc_class="*", language="*", other=metric,
                                 questions=n * many // 2, value=half))  # fmt: skip
    rows.append(
        make_row(
            "golden_coverage",
            kind="split_leak",
            split="development",
            intent="*",
            doc_class="*",
            language="*",
            other="policies/returns.md",
            questions=2,
            detail="dev-014 (development) and rel-020 (release) share policies/returns.md",
        )
    )
    rows.append(make_row("golden_coverage", kind="duplicate_question", split="release", intent="*", doc_class="*", language="*",
                         other="dev-003, rel-009", questions=2, value=0.94, detail="differ in one word"))  # fmt: skip
    return rows
