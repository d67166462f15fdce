"""Hand-made rows of parsing, cleaning and copies."""

from __future__ import annotations

from ingestion.parse_quality import class_rows, stratum_rows
from rag_eval_assets.settings import Transcripts
from tests.report.rows.made import Row, Tables, make_row


def parse_quality() -> dict[str | None, list[Row]]:
    policy = "case=keep whitespace=collapse punctuation=keep unicode=NFC"
    plan = {
        "pymupdf": {"pdf": (0.004, 0.011, 0.007)},
        "unstructured": {"pdf": (0.012, 0.06, 0.019), "html": (0.001, 0.0, 0.002), "markdown": (0.0, 0.0), "docx": (0.003, 0.004)},
        "ocr": {"scan": (0.031, 0.088, 0.154, 0.047)},
    }
    found: dict[str | None, list[Row]] = {}
    for parser, classes in plan.items():
        rows = []
        for doc_class, rates in classes.items():
            for i, rate in enumerate(rates):
                shared = {
                    "scope": "document", "doc_id": f"{doc_class}/file-{i}.{doc_class}", "doc_class": doc_class, "policy": policy,
                    "status": "scored", "item": 0,
                }  # fmt: skip
                units = 4000 + 900 * i
                read = [{"expected": "m", "found": "rn", "count": i + 1, "edits": 2 * (i + 1)}] if rate else []
                rows.append(make_row("parse_quality", **shared | {"metric": "parsed", "value": 1.0, "errors": 0, "units": 1}))
                counted = {"value": rate, "errors": round(rate * units), "units": units, "confusions": read}
                rows.append(make_row("parse_quality", **shared | counted, metric="cer"))
                rows.append(
                    make_row("parse_quality", **shared, metric="wer", value=2 * rate, errors=round(rate * units / 3), units=units // 6)
                )
                rows.append(make_row("parse_quality", **shared, metric="length_ratio", value=1 - rate / 2, errors=1, units=1))
                rows.append(make_row("parse_quality", **shared, metric="order_tau", value=1.0 if rate < 0.05 else 0.913))
                rows.append(
                    make_row("parse_quality", **shared, metric="evidence_located", value=0.75, errors=1 if rate > 0.05 else 0, units=4)
                )
            if doc_class in ("pdf", "html"):
                rows.append(make_row("parse_quality", **shared | {"metric": "teds", "item": 1}, value=0.94))
            if doc_class == "scan":
                lost = {
                    "metric": "quotation_lost",
                    "value": 0.72,
                    "expected": "Close the lid <b>firmly</b>.",
                    "found": "C1ose the 1id f1rm1y.",
                }
                rows.append(make_row("parse_quality", **shared | lost))
        found[parser] = rows
    missing = {"scope": "document", "doc_id": "pdf/broken.pdf", "doc_class": "pdf", "policy": policy, "metric": "cer", "item": 0}
    found["pymupdf"].append(make_row("parse_quality", **missing, status="failed", reason="corrupt"))
    gone = missing | {"metric": "parsed", "value": 0.0, "errors": 1, "units": 1, "status": "scored"}
    found["pymupdf"].append(make_row("parse_quality", **gone))
    policy_in_force = Transcripts().model_dump()
    for row in (row for rows in found.values() for row in rows if row["doc_class"] == "scan"):
        row["stratum"] = "photo"
    made = {}
    for parser, rows in found.items():
        figures = [*class_rows(rows, policy_in_force), *stratum_rows(rows, policy_in_force, {"photo"})]
        made[parser] = [row | {"dpi": 200 if parser == "ocr" else None} for row in [*rows, *figures]]
    return made


def dedup() -> list[Row]:
    rows = []
    for permutations in (64, 128):
        for i, threshold in enumerate((0.5, 0.6, 0.7, 0.8, 0.9)):
            precision, recall = 0.80 + 0.05 * i - (0.02 if permutations == 64 else 0), 1.0 - 0.02 * i * i * 0.4
            rows.append(
                make_row(
                    "dedup_quality", permutations=permutations, bands=16, threshold=threshold, labelled_pairs=32, precision=precision,
                    precision_lower=precision - 0.15, precision_upper=min(1.0, precision + 0.09), recall=recall, recall_lower=recall - 0.2,
                    recall_upper=min(1.0, recall + 0.05), false_merge_rate=1 - precision, false_merge_rate_lower=0.0,
                    false_merge_rate_upper=0.2,
                    missed_merge_rate=1 - recall, missed_merge_rate_lower=0.0, missed_merge_rate_upper=0.2,
                    used=permutations == 128 and threshold == 0.8, status="scored",
                )
            )  # fmt: skip
    return rows


def cleaning() -> list[Row]:
    def measure(name: str, scope: str, numerator: float, denominator: float, lower: float, upper: float) -> Row:
        return make_row("cleaning_quality", measure=name, scope=scope, value=numerator / denominator, numerator=numerator,
                        denominator=denominator, lower=lower, upper=upper, status="scored")  # fmt: skip

    return [
        measure("boilerplate_precision", "all", 41, 42, 0.8743, 0.9994), measure("boilerplate_recall", "all", 41, 47, 0.7426, 0.9517),
        measure("language_accuracy", "all", 71, 72, 0.925, 0.9997), measure("pii_recall", "type=email", 12, 12, 0.7353, 1.0),
        measure("pii_recall", "type=iban", 5, 6, 0.3587, 0.9958),
        make_row("cleaning_quality", measure="pii_recall", scope="type=phone", status="not_applicable", reason="no_labels"),
    ]  # fmt: skip


def ingestion() -> Tables:
    broken = [
        ("pdf/broken.pdf", "pdf", "corrupt", "cannot open: no objects found"), ("pdf/secret.pdf", "pdf", "encrypted", "needs a password"),
        ("scan/blank.png", "scan", "no_text", "0 words over the confidence limit"),
    ]  # fmt: skip
    kept = [("pdf/file-0.pdf", "pdf", "pymupdf"), ("html/file-0.html", "html", "unstructured"), ("scan/file-0.png", "scan", "ocr")]
    documents = [make_row("documents", doc_id=d, doc_class=c, parser=p, language="en", text="Text.", status="ok") for d, c, p in kept]
    parsed: dict[str | None, list[Row]] = {"pymupdf": [], "ocr": [], "unstructured": []}
    for doc_id, doc_class, reason, detail in broken:
        parser = "ocr" if doc_class == "scan" else "pymupdf"
        parsed[parser].append(
            make_row("parsed_documents", doc_id=doc_id, doc_class=doc_class, status="failed", reason=reason, detail=detail)
        )
        documents.append(
            make_row("documents", doc_id=doc_id, doc_class=doc_class, parser=parser, language="und", status="failed", reason="parse_failed")
        )
    parsed["unstructured"].append(
        make_row(
            "parsed_documents", doc_id="pdf/broken.pdf", doc_class="pdf", status="failed", reason="crashed", detail="worker died: signal 11"
        )
    )
    verdicts = [("unique", 58), ("near", 4), ("exact", 2), ("version", 5), ("blocked", 3)]
    near = [
        make_row("near_duplicates", row="document", doc_id=f"{relation}-{i}", other_doc_id="x", relation=relation,
                 kept=relation not in ("near", "exact"), shingle="char-5", permutations=128, threshold=0.8, rule="", status="ok")
        for relation, many in verdicts for i in range(many)
    ]  # fmt: skip
    return {"parsed_documents": parsed, "documents": {None: documents}, "near_duplicates": {None: near}}
