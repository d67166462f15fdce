"""A comparison's decisions as continuous integration reads them: JUnit XML and JSON.

What belongs here: form. What does not: the decisions (`scoring.comparison`), and what a person reads (`stories`, the page).
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
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
