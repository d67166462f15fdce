"""A comparison's decisions as continuous integration reads them: JUnit XML and JSON.

What belongs here: form. What does not: the decisions (`scoring.comparison`), and what a person reads (`stories`, the page).
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rag_eval_assets.scoring.comparison import DECLARED
from rag_eval_assets.scoring.decisions import DECISION_REASONS, FAIL, PASS

Row = Mapping[str, Any]


def verdict(rows: Sequence[Row]) -> str:
    """The worst decision of the declared claims; exploratory rows decide nothing."""
    decisions = {row["decision"] for row in rows if row["role"] == DECLARED}
    return FAIL if FAIL in decisions else PASS if decisions == {PASS} else "INSUFFICIENT_EVIDENCE"


def line(row: Row) -> str:
    """One row in words: measure, difference with its interval, pairs, decision."""
    measure = row["metric"] + (f"@{row['k']}" if row["k"] else "") + f" by {row['unit']}, {row['split']}"
    place = "" if row["slice"] == "all" else f", {row['slice']} {row['slice_value']}"
    asked = f"{row['claim'].replace('_', ' ')}, margin {row['margin'] or 0:g}"
    seen = "no difference"
    if row["difference"] is not None:
        seen = f"{row['difference']:+.4f} [{row['lower']:+.4f}, {row['upper']:+.4f}]"
    told = f"{row['paired']} paired in {row['clusters']} clusters, {row['missing']} missing, {row['excluded']} excluded"
    detectable = "" if row["detectable"] is None else f"; decides from {row['detectable']:.4f} off a bound"
    name = f"{row['claim_name']}: " if row["claim_name"] else ""
    detail = f"; {row['detail']}" if row["detail"] else ""
    return f"{row['role']}  {name}{measure}{place}: {seen} ({asked}; {told}{detectable}; {row['decision_reason']}{detail})"


def next_steps(rows: Sequence[Row]) -> Iterator[str]:
    """What a person can do about a comparison that does not pass, a sentence each."""
    open_claims = [row for row in rows if row["role"] == DECLARED and row["decision"] != PASS]
    if not any(row["role"] == DECLARED for row in rows):
        yield "The policy declares no claim that these scores hold; name one under claims: in the policy file."
    short = [row for row in open_claims if row["decision"] != FAIL and row["decision_reason"].startswith(("interval_", "not_in_family"))]
    margins = sorted({row["margin"] for row in short if row["margin"]})
    if short:
        many = f" ('rag-eval power --margin {margins[0]:g}' says how many)" if margins else ""
        yield f"Undecided for lack of questions: {_named(short)}. More questions{many} or a larger margin in the policy decide it."
    unscored = [row for row in open_claims if row["decision_reason"] in ("missing_pairs", "missing_run", "no_pairs")]
    if unscored:
        yield f"Not scored on both sides: {_named(unscored)}. Run 'rag-eval sync', or save the baseline anew where its questions changed."
    if failed := [row for row in open_claims if row["decision"] == FAIL and row not in unscored]:
        yield f"Worse than the policy allows: {_named(failed)}. 'rag-eval diagnose SYSTEM' says which step is implicated."


def _named(rows: Iterable[Row]) -> str:
    return ", ".join(row["claim_name"] for row in rows)


def as_json(candidate: str, baseline: str, rows: Sequence[Row]) -> str:
    """The whole comparison: verdict, what changed, a row a claim and exploratory row."""
    changed = json.loads(rows[0]["what_changed"]) if rows else {}
    kept = [{k: v for k, v in row.items() if k != "what_changed"} for row in rows]
    told = {"candidate": candidate, "baseline": baseline, "decision": verdict(rows), "what_changed": changed, "rows": kept}
    return json.dumps(told, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def as_junit(candidate: str, baseline: str, rows: Sequence[Row]) -> str:
    """One test case a declared claim: FAIL and INSUFFICIENT_EVIDENCE are failures, a claim that could not be looked at is an error."""
    declared = [row for row in rows if row["role"] == DECLARED]
    suite = ET.Element("testsuite", name=f"{candidate} against {baseline}")
    failures = errors = 0
    for row in declared:
        case = ET.SubElement(suite, "testcase", classname=f"{candidate}.{baseline}", name=row["claim_name"])
        if row["decision"] == PASS:
            continue
        broken = row["decision_reason"] in ("incomparable", "missing_run")
        failures, errors = failures + (not broken), errors + broken
        text = f"{row['decision']}: {DECISION_REASONS[row['decision_reason']]}"
        ET.SubElement(case, "error" if broken else "failure", type=row["decision"], message=text).text = line(row)
    suite.set("tests", str(len(declared)))
    suite.set("failures", str(failures))
    suite.set("errors", str(errors))
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
