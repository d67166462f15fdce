"""A candidate against its saved baselines, question by question.

What belongs here: which two scores may be compared at all, which questions form pairs, and the rows. What does not: the evidence
pairs give and the decision on it (`hypotheses`), saving a baseline, and gates on a single system.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rag_eval_assets.scoring.clusters import question_clusters
from rag_eval_assets.scoring.decisions import INSUFFICIENT
from rag_eval_assets.scoring.hypotheses import Claim, Evidence, decide, holm, weigh
from rag_eval_assets.scoring.summary import slice_values
from rag_eval_assets.tables import FAILED, MISSING, NOT_APPLICABLE, SCORED

TREATMENTS = "spec"
"""Identity under which the parameters that may differ stand; every other identity must match."""

POLICY = "policy"
"""Identity that must match where the baseline was saved under one: margins are set before looking."""

AGGREGATION = "mean over questions; a ranking that failed or is missing counts 0, other measures pair what is scored on both sides"
"""How a comparison makes one figure of many; part of what must match."""

DEFAULT_POLICY: dict[str, Any] = {
    "confidence": 0.95,
    "split": "release",
    "claims": {},
    "maximum_excluded": 0.1,
    "exploratory": {"margin": 0.02, "slices": (), "minimum_support": 20},
}
"""Without a policy no claim is declared, so everything is exploratory."""

DECLARED, EXPLORATORY = "declared", "exploratory"

_RANKED = ("document", "chunk", "group")
Row = Mapping[str, Any]
Measure = tuple[str, int, str, str, str]
"""Metric, k, what k counts, unit, split."""


def compare(
    scores: Iterable[Row],
    baselines: Iterable[Row],
    questions: Iterable[Row],
    identities: Mapping[str, Any],
    policy: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Rows of comparison of a candidate's system_scores to each baseline: the policy's claims, then exploratory rows.

    `questions` are rows of golden_questions; those linked by gold documents are one cluster. `identities` of the candidate, and those saved
    with the baseline (JSON), must be equal but for `spec`, whose differences are listed as what changed, and for `policy`, which must
    match where the baseline was saved under one; a baseline that differs elsewhere gives one row, incomparable, naming the fields.
    Without a baseline there is one row, no_baseline.

    Ranking measures count a failed or missing question 0 on both sides; others pair the questions scored on both sides, and one
    that the candidate alone could not score keeps a claim from passing. Claims are adjusted by Holm over the family; exploratory
    rows are not adjusted and decide nothing.
    """
    rules = policy or DEFAULT_POLICY
    saved: dict[str, list[Row]] = defaultdict(list)
    for row in baselines:
        saved[row["baseline"]].append(row)
    if not saved:
        return [_refused("none", "no_baseline", "{}", None)]
    candidate = _by_measure(scores)
    known = {q["question_id"]: q for q in questions}
    clusters = question_clusters(known.values())
    rows = []
    for name in sorted(saved):
        then = json.loads(saved[name][0]["identities"])
        changed = _changes(then.get(TREATMENTS) or {}, identities.get(TREATMENTS) or {})
        treatments = json.dumps(changed, sort_keys=True, ensure_ascii=False)
        free = {TREATMENTS} if then.get(POLICY) is not None else {TREATMENTS, POLICY}
        unlike = _changes({k: v for k, v in then.items() if k not in free}, {k: v for k, v in identities.items() if k not in free})
        if unlike:
            detail = "; ".join(f"{field}: {was!r} is now {now!r}" for field, (was, now) in sorted(unlike.items()))
            rows.append(_refused(name, "incomparable", treatments, detail))
            continue
        against = _Baseline(name, _by_measure(saved[name]), candidate, known, clusters, treatments, rules)
        rows += [*against.claims(), *against.exploratory()]
    return rows


@dataclass(frozen=True)
class _Pairs:
    """Questions of one measure in one slice: scored on both sides, lost by the candidate, and without a score or use for other reasons."""

    shared: list[str]
    lost: list[str]
    missing: int
    excluded: int
    one_sided: int


@dataclass(frozen=True)
class _Baseline:
    """One baseline beside the candidate."""

    name: str
    before: Mapping[Measure, Mapping[str, Row]]
    now: Mapping[Measure, Mapping[str, Row]]
    questions: Mapping[str, Row]
    clusters: Mapping[str, str]
    treatments: str
    rules: Mapping[str, Any]
    _read: dict[Measure, tuple[dict[str, float], dict[str, float]]] = field(default_factory=dict)

    def _sides(self, measure: Measure) -> tuple[dict[str, float], dict[str, float]]:
        """Values of the baseline and of the candidate by question, read once for all slices."""
        if measure not in self._read:
            self._read[measure] = _values(self.before[measure], measure[3]), _values(self.now[measure], measure[3])
        return self._read[measure]

    def claims(self) -> list[dict[str, Any]]:
        """A row for each claim of the policy, decided as one family."""
        family = list(self.rules["claims"].items())
        level = (1 - self.rules["confidence"]) / 2
        found: list[tuple[Measure, _Pairs | None, Evidence | None]] = []
        for _, claim in family:
            measure = _measure(claim, self.rules["split"])
            if measure in self.before and measure in self.now:
                own = self._pairs(measure)
                found.append((measure, own, self._evidence(measure, own, claim["claim"], claim["margin"] or 0.0, len(family))))
            else:
                found.append((measure, None, None))
        weighed = [evidence for _, _, evidence in found]
        adjusted = holm([1.0 if e is None else e.p_value for e in weighed])
        harm = holm([1.0 if e is None else e.p_harm for e in weighed])
        rows = []
        for (name, claim), (measure, pairs, evidence), p, q in zip(family, found, adjusted, harm, strict=True):
            if pairs is None:
                rows.append(self._unscored(name, claim, measure))
                continue
            decided = decide(claim["claim"], evidence, p, q, level=level, in_the_way=self._in_the_way(pairs))
            rows.append(self._row(measure, claim["claim"], claim["margin"] or 0.0, pairs, evidence, decided, name=name, p_adjusted=p))
        return rows

    def exploratory(self) -> list[dict[str, Any]]:
        """A row for each measure that both sides have and no claim names, and for each slice value of the claimed measures."""
        chosen = self.rules["exploratory"]
        claimed = {_measure(claim, self.rules["split"]) for claim in self.rules["claims"].values()}
        # Measures that only one side has (a metric or a cut-off that came or went) are differences in what is measured, not in scores.
        shared = sorted(self.before.keys() & self.now.keys())
        rows = [self._explored(measure, self._pairs(measure), 1) for measure in shared if measure not in claimed]
        members: dict[tuple[str, str], set[str]] = defaultdict(set)
        for name in chosen["slices"]:
            for question, row in self.questions.items():
                for value in slice_values(row, name):
                    members[name, value].add(question)
        for measure in (m for m in shared if m in claimed):
            asked = self.before[measure].keys() | self.now[measure].keys()
            for place in sorted(members):
                if inside := members[place] & asked:
                    rows.append(self._explored(measure, self._pairs(measure, inside), chosen["minimum_support"], place))
        return rows

    def _explored(self, measure: Measure, pairs: _Pairs, support: int, place: tuple[str, str] = ("all", "")) -> dict[str, Any]:
        margin, level = self.rules["exploratory"]["margin"], (1 - self.rules["confidence"]) / 2
        evidence = self._evidence(measure, pairs, "non_inferiority", margin, 1)
        thin = "too_few_questions" if len(pairs.shared) < support else None
        p, q = (evidence.p_value, evidence.p_harm) if evidence else (1.0, 1.0)
        if thin:
            p = q = 1.0
        decided = decide("non_inferiority", evidence, p, q, level=level, in_the_way=thin or self._in_the_way(pairs))
        return self._row(measure, "non_inferiority", margin, pairs, evidence, decided, place=place)

    def _pairs(self, measure: Measure, inside: set[str] | None = None) -> _Pairs:
        before, now = self.before[measure], self.now[measure]
        old, new = self._sides(measure)
        asked = sorted(before.keys() | now.keys() if inside is None else inside)
        idle = {q for q in asked for side in (before, now) if q in side and side[q]["status"] == NOT_APPLICABLE}
        shared = [q for q in asked if q in old and q in new]
        lost = [q for q in asked if q not in new and q not in idle]
        return _Pairs(
            shared,
            lost,
            sum(q not in idle and not (q in old and q in new) for q in asked),
            len(idle),
            sum(q in old or q in new for q in idle),
        )

    def _evidence(self, measure: Measure, pairs: _Pairs, claim: Claim, margin: float, family: int) -> Evidence | None:
        if not pairs.shared:
            return None
        old, new = self._sides(measure)
        return weigh(
            [new[q] for q in pairs.shared],
            [old[q] for q in pairs.shared],
            [self.clusters.get(q, q) for q in pairs.shared],
            claim,
            margin,
            confidence=self.rules["confidence"],
            family=family,
        )

    def _in_the_way(self, pairs: _Pairs) -> str | None:
        if pairs.lost:
            return "missing_pairs"
        share = pairs.one_sided / (len(pairs.shared) + pairs.one_sided) if pairs.one_sided else 0.0
        return "too_many_excluded" if share > self.rules["maximum_excluded"] else None

    def _row(
        self,
        measure: Measure,
        claim: Claim,
        margin: float,
        pairs: _Pairs,
        evidence: Evidence | None,
        decided: tuple[str, str],
        *,
        name: str | None = None,
        p_adjusted: float | None = None,
        place: tuple[str, str] = ("all", ""),
    ) -> dict[str, Any]:
        undecided = decided[0] == INSUFFICIENT and evidence is not None
        lost = f"not scored now: {', '.join(pairs.lost[:10])}" if pairs.lost else None
        return {
            **_place(self.name, measure, self.treatments),
            "role": EXPLORATORY if name is None else DECLARED,
            "claim_name": name or "",
            "claim": claim,
            "margin": margin,
            "slice": place[0],
            "slice_value": place[1],
            "difference": evidence.difference if evidence else None,
            "lower": evidence.lower if evidence else None,
            "upper": evidence.upper if evidence else None,
            "p_value": evidence.p_value if evidence else None,
            "p_adjusted": p_adjusted if evidence else None,
            "detectable": evidence.detectable if evidence and undecided else None,
            "paired": len(pairs.shared),
            "clusters": evidence.clusters if evidence else 0,
            "missing": pairs.missing,
            "excluded": pairs.excluded,
            "decision": decided[0],
            "decision_reason": decided[1],
            **({"status": SCORED, "reason": None} if evidence else _unpaired(self.before[measure], self.now[measure])),
            "detail": lost,
        }

    def _unscored(self, name: str, claim: Row, measure: Measure) -> dict[str, Any]:
        """The row of a claim whose measure one side lacks: the field that differs where the metric itself is there."""
        if measure not in self.now:
            detail = f"the candidate has no {_told(measure)}{_others(self.now, measure)}"
        else:
            detail = f"the baseline has no {_told(measure)}{_others(self.before, measure)}"
        reason = "incomparable" if measure in self.now else "missing_run"
        return {
            **_refused(self.name, reason, self.treatments, detail),
            **_place(self.name, measure, self.treatments),
            "role": DECLARED,
            "claim_name": name,
            "claim": claim["claim"],
            "margin": claim["margin"] or 0.0,
        }


def _measure(claim: Row, split: str) -> Measure:
    return claim["metric"], claim["k"], claim["cutoff"] if claim["k"] else "none", claim["unit"], split


def _told(measure: Measure) -> str:
    metric, k, cutoff, unit, split = measure
    return metric + (f"@{k} {'tokens ' if cutoff == 'tokens' else ''}" if k else " ") + f"by {unit} in split {split}"


def _others(side: Iterable[Measure], measure: Measure) -> str:
    """What a side has of the metric, field by field."""
    same = [m for m in side if m[0] == measure[0]]
    fields = {
        "k": sorted({str(m[1]) for m in same}, key=int),
        "unit": sorted({m[3] for m in same}),
        "split": sorted({m[4] for m in same}),
    }
    wanted = {"k": str(measure[1]), "unit": measure[3], "split": measure[4]}
    unlike = [f"{field}: {', '.join(have)}, not {wanted[field]}" for field, have in fields.items() if have and wanted[field] not in have]
    return "; " + "; ".join(unlike) if unlike else ""


def _place(baseline: str, measure: Measure, treatments: str) -> dict[str, Any]:
    return {"baseline": baseline, **dict(zip(("metric", "k", "cutoff", "unit", "split"), measure, strict=True)), "what_changed": treatments}


def _unpaired(before: Mapping[str, Row], now: Mapping[str, Row]) -> dict[str, str]:
    rows = [*now.values(), *before.values()]
    if all(r["status"] == NOT_APPLICABLE for r in rows):
        return {"status": NOT_APPLICABLE, "reason": rows[0]["reason"]}
    return {"status": MISSING, "reason": "missing_run"}


def _values(rows: Mapping[str, Row], unit: str) -> dict[str, float]:
    found = {}
    for question, row in rows.items():
        if row["status"] == SCORED:
            found[question] = row["value"]
        elif unit in _RANKED and row["metric"] != "context_recall" and row["status"] in (FAILED, MISSING):
            found[question] = 0.0
    return found


def _by_measure(rows: Iterable[Row]) -> dict[Measure, dict[str, Row]]:
    found: dict[Measure, dict[str, Row]] = defaultdict(dict)
    for row in rows:
        found[row["metric"], row["k"], row["cutoff"], row["unit"], row["split"]][row["question_id"]] = row
    return found


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Fields whose values differ, with the value before and now; a field that one side lacks counts as null there."""
    return {
        name: [before.get(name), now.get(name)]
        for name in sorted(before.keys() | now.keys())
        if _canonical(before.get(name)) != _canonical(now.get(name))
    }


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _refused(baseline: str, reason: str, treatments: str, detail: str | None) -> dict[str, Any]:
    return {
        **_place(baseline, ("all", 0, "none", "question", "all"), treatments),
        "role": EXPLORATORY,
        "claim_name": "",
        "claim": "non_inferiority",
        "margin": None,
        "slice": "all",
        "slice_value": "",
        **dict.fromkeys(("difference", "lower", "upper", "p_value", "p_adjusted", "detectable")),
        **dict.fromkeys(("paired", "clusters", "missing", "excluded"), 0),
        "decision": INSUFFICIENT,
        "decision_reason": reason,
        "status": MISSING if reason == "missing_run" else NOT_APPLICABLE,
        "reason": reason,
        "detail": detail,
    }
