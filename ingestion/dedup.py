"""Which documents are copies or versions of each other, or contained in one another, and which one survives.

Candidates and similarities of texts come from `minhash`; every verdict rests on true similarity, never on an estimate. What a
document may be merged across is decided here. How well it works on labelled pairs is measured in `dedup_quality`.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ingestion import minhash
from ingestion.minhash import Comparisons, ContentStore, Signatures

UNIQUE: Final = "unique"
EXACT: Final = "exact"
NEAR: Final = "near"
VERSION: Final = "version"
BLOCKED: Final = "blocked"
CONTAINED: Final = "contained"

# Never merged across, whatever the settings say: who may read it, where it holds, what language it speaks.
BOUNDARY: Final = ("tenant", "groups", "jurisdiction", "publication_state", "language")
_STATES: Final = {"published": 0, "draft": 1, "archived": 2}

UNIQUE_COLUMNS: Final = (
    "doc_id", "doc_class", "parser", "title", "language", "text", "text_sha256", "elements", "tenant", "groups", "jurisdiction",
    "publication_state", "locale", "version", "version_of", "published", "fields",
)  # fmt: skip
READ_COLUMNS: Final = (
    "doc_id", "doc_class", "title", "language", "text", "text_sha256", "tenant", "groups", "jurisdiction", "publication_state",
    "locale", "version", "version_of", "published", "fields", "status",
)  # fmt: skip
"""All that a verdict depends on; what else a document has is a key of `fields`."""
LENGTH: Final = "len(text)"
"""What stands in the place of a text that is not held; no field has such a name."""


@dataclass(frozen=True)
class DedupPolicy:
    """Shingle length in characters, MinHash permutations, the Jaccard similarity from which two texts are near-duplicates,
    whether all versions of a document are kept or the newest only, LSH bands (None: `minhash.bands`), and the share of a text
    from which it counts as contained in a longer one (None: not looked for)."""

    shingle_length: int = 5
    permutations: int = 128
    threshold: float = 0.8
    versions: Literal["keep", "newest"] = "keep"
    bands: int | None = None
    containment: float | None = 0.95

    @property
    def shingle(self) -> str:
        """Shingle unit and length."""
        return f"char-{self.shingle_length}"

    @property
    def shape(self) -> tuple[int, int]:
        """Bands of the LSH index and rows of each."""
        if self.bands is None:
            return minhash.bands(self.permutations, self.threshold)
        return self.bands, self.permutations // self.bands


def _natural(version: str | None) -> tuple[tuple[int, int, str], ...]:
    """A version's place in order: 2.10 after 2.9, none before all."""
    return tuple((1, int(part), "") if part.isdigit() else (0, 0, part) for part in re.findall(r"\d+|[^\W\d]+", version or ""))


def _preferred(documents: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Best survivor first: publication state, newest version, newest date, longest text, smallest doc_id."""
    ordered = sorted(documents, key=lambda d: d["doc_id"])
    ordered.sort(key=lambda d: d[LENGTH], reverse=True)
    ordered.sort(key=lambda d: d["published"] or "", reverse=True)
    ordered.sort(key=lambda d: _natural(d["version"]), reverse=True)
    ordered.sort(key=lambda d: _STATES.get(d["publication_state"], len(_STATES)))
    return ordered


def _criterion(survivor: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """The first rule of `_preferred` on which two documents differ."""
    if survivor["publication_state"] != other["publication_state"]:
        return "publication_state"
    if _natural(survivor["version"]) != _natural(other["version"]):
        return "newest_version"
    if (survivor["published"] or "") != (other["published"] or ""):
        return "newest_date"
    return "most_complete" if survivor[LENGTH] != other[LENGTH] else "smallest_doc_id"


def _boundary(document: Mapping[str, Any], protected: Sequence[str]) -> tuple[tuple[str, Any], ...]:
    """Fields and values that two documents must share to be merged."""
    free = json.loads(document["fields"] or "{}")
    values: list[tuple[str, Any]] = []
    for name in dict.fromkeys((*BOUNDARY, *protected)):
        value = document[name] if name in document else free.get(name)
        values.append((name, json.dumps(sorted(value) if isinstance(value, (list, tuple, set)) else value, sort_keys=True)))
    return tuple(values)


def are_versions(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two similar documents are versions of one: a shared `version_of`, or a shared title and two versions."""
    if one["version_of"] or other["version_of"]:
        return bool(one["version_of"] == other["version_of"] and one["version"] != other["version"])
    titles = [" ".join((d["title"] or "").casefold().split()) for d in (one, other)]
    return bool(titles[0] and titles[0] == titles[1] and one["version"] and other["version"] and one["version"] != other["version"])


@dataclass(frozen=True)
class _Unit:
    """Documents equal in text, boundary and version: copies beyond doubt. `head` is the one that survives among them."""

    head: dict[str, Any]
    members: tuple[dict[str, Any], ...]
    sha: str
    boundary: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class _Link:
    """Two units that are similar, or versions, or of which `part` (one of the two) is contained in the other."""

    one: int
    other: int
    relation: str
    jaccard: float
    containment: float
    rule: str
    part: int | None = None

    def rule_for(self, position: int) -> str:
        """The rule as one of the two sees it."""
        if self.part is None:
            return self.rule
        return "contained_in_longer" if self.part == position else "contains_shorter"


class _Groups:
    """Union-find over positions."""

    def __init__(self, count: int) -> None:
        self._parent = list(range(count))

    def find(self, item: int) -> int:
        while self._parent[item] != item:
            self._parent[item] = self._parent[self._parent[item]]
            item = self._parent[item]
        return item

    def join(self, one: int, other: int) -> None:
        self._parent[self.find(one)] = self.find(other)


def parted(
    documents: Iterable[Mapping[str, Any]], texts: Mapping[str, str] | None = None
) -> tuple[list[dict[str, Any]], Mapping[str, str]]:
    """Documents with status ok without their texts, of which the length is kept, and their texts by hash: `texts` where that is given."""
    found: dict[str, str] = {}
    rows = []
    for document in documents:
        if document["status"] == "ok":
            row = dict(document)
            row[LENGTH] = len(text := row.pop("text"))
            rows.append(row)
            if texts is None:
                found[row["text_sha256"]] = text
    return rows, found if texts is None else texts


def _units(documents: Sequence[dict[str, Any]], protected: Sequence[str]) -> list[_Unit]:
    """Units, best survivor first."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    boundaries: dict[tuple[tuple[str, Any], ...], tuple[tuple[str, Any], ...]] = {}  # equal ones are kept once
    for document in _preferred(documents):
        boundary = _boundary(document, protected)
        boundary = boundaries.setdefault(boundary, boundary)
        groups[document["text_sha256"], boundary, document["version_of"], document["version"]].append(document)
    return [_Unit(members[0], tuple(members), key[0], key[1]) for key, members in groups.items()]


def _text_pairs(units: Sequence[_Unit], pairs: Iterable[tuple[str, str]]) -> list[tuple[int, int]]:
    """Pairs of units to look at, from pairs of texts.

    All pairs inside one boundary, where something may be merged. Across boundaries each unit is linked to one on the other
    side: a text that a thousand tenants hold is a thousand links, not half a million.
    """
    by_sha: dict[str, list[int]] = defaultdict(list)
    for position, unit in enumerate(units):
        by_sha[unit.sha].append(position)
    found: set[tuple[int, int]] = set()
    for one, other in [*((sha, sha) for sha in sorted(by_sha)), *pairs]:
        for left, right in ((one, other), (other, one)):
            inside: dict[Any, list[int]] = defaultdict(list)
            for position in by_sha[right]:
                inside[units[position].boundary].append(position)
            for position in by_sha[left]:
                across = next((p for p in by_sha[right] if units[p].boundary != units[position].boundary), None)
                near = [p for p in inside[units[position].boundary] if p != position]
                found.update((min(position, p), max(position, p)) for p in [*near, *([] if across is None else [across])])
    return sorted(found)


def _links(units: Sequence[_Unit], policy: DedupPolicy, found: Signatures, compare: Comparisons) -> list[_Link]:
    links: dict[tuple[int, int], _Link] = {}

    def link(one: int, other: int, relation: str, measured: tuple[float, float]) -> None:
        differing = [a[0] for a, b in zip(units[one].boundary, units[other].boundary, strict=True) if a != b]
        rule = ""  # a copy's rule says what its survivor was chosen by, which is not known yet
        if relation == VERSION and policy.versions == "keep":
            rule = "versions_kept"
        elif differing:
            rule = f"protected: {', '.join(differing)}"
        elif relation == VERSION:
            rule = "newest_version"
        if relation in (EXACT, NEAR) and differing:
            relation = BLOCKED
        part = min(one, other, key=lambda p: (size[units[p].sha], -p)) if relation == CONTAINED else None
        links[one, other] = _Link(one, other, relation, *measured, rule, part)

    size = dict(zip(found.shas, found.sizes.tolist(), strict=True))
    candidates = minhash.candidates(found, policy.shape, policy.threshold, policy.containment)
    for one, other in _text_pairs(units, candidates):
        measured = compare(units[one].sha, units[other].sha)
        if measured[0] >= policy.threshold:
            relation = EXACT if units[one].sha == units[other].sha else NEAR
        elif policy.containment is not None and measured[1] >= policy.containment:
            relation = CONTAINED
        else:
            continue
        link(one, other, VERSION if are_versions(units[one].head, units[other].head) else relation, measured)
    # Metadata links versions however little they share, each to the newest.
    named: dict[str, list[int]] = defaultdict(list)
    for position, unit in enumerate(units):
        if unit.head["version_of"]:
            named[unit.head["version_of"]].append(position)
    for positions in named.values():
        newest = max(positions, key=lambda p: (_natural(units[p].head["version"]), units[p].head["published"] or "", -p))
        for position in positions:
            pair = (min(position, newest), max(position, newest))
            if pair not in links and units[position].head["version"] != units[newest].head["version"]:
                link(*pair, VERSION, compare(units[pair[0]].sha, units[pair[1]].sha))
    return [links[pair] for pair in sorted(links)]


@dataclass
class _Verdict:
    """Where a unit goes: the unit that survives for it, and why."""

    survivor: int
    relation: str
    rule: str
    jaccard: float | None = None
    containment: float | None = None


def _merge(units: Sequence[_Unit], links: Sequence[_Link]) -> list[_Verdict]:
    """Copies into survivors, in order of preference. Each goes to the most similar survivor it is itself similar to.

    So no document is merged through a chain of others, and a copy of two versions does not merge the versions.
    """
    neighbours: dict[int, list[tuple[int, _Link]]] = defaultdict(list)
    for link in links:
        neighbours[link.one].append((link.other, link))
        neighbours[link.other].append((link.one, link))
    verdicts: list[_Verdict] = []
    for position, unit in enumerate(units):
        survivors = [
            (other, link)
            for other, link in neighbours[position]
            if link.relation in (EXACT, NEAR) and other < position and verdicts[other].survivor == other
        ]
        if survivors:
            best, link = max(survivors, key=lambda pair: (pair[1].jaccard, -pair[0]))
            rule = _criterion(units[best].head, unit.head)
            verdicts.append(_Verdict(best, link.relation, rule, link.jaccard, link.containment))
            continue
        kinds = {link.relation: link.rule_for(position) for _, link in reversed(neighbours[position])}
        if len(unit.members) > 1:
            kinds[EXACT] = _criterion(unit.head, unit.members[1])
        relation = next((kind for kind in (EXACT, NEAR, VERSION, BLOCKED, CONTAINED) if kind in kinds), UNIQUE)
        verdicts.append(_Verdict(position, relation, kinds.get(relation, "no_duplicate")))
    for position, verdict in enumerate(verdicts):
        if not verdict.rule:  # a survivor of similar texts: what put it before the best of those it absorbed
            merged = next((p for p in range(position + 1, len(units)) if verdicts[p].survivor == position), None)
            verdict.rule = "merged_elsewhere" if merged is None else _criterion(units[position].head, units[merged].head)
    return verdicts


def _keep_newest(units: Sequence[_Unit], links: Sequence[_Link], verdicts: list[_Verdict]) -> None:
    """Drop every surviving version that has a newer one inside its boundary."""
    groups = _Groups(len(units))
    for link in links:
        if link.relation == VERSION and units[link.one].boundary == units[link.other].boundary:
            ends = (verdicts[link.one].survivor, verdicts[link.other].survivor)
            groups.join(*ends)
    members: dict[int, list[int]] = defaultdict(list)
    for position, verdict in enumerate(verdicts):
        if verdict.survivor == position:
            members[groups.find(position)].append(position)
    replaced: dict[int, int] = {}
    for group in members.values():
        newest = max(group, key=lambda p: (_natural(units[p].head["version"]), units[p].head["published"] or "", -p))
        replaced.update({position: newest for position in group if position != newest})
    measured = {(link.one, link.other): (link.jaccard, link.containment) for link in links}
    for position, verdict in enumerate(verdicts):
        newest = replaced.get(verdict.survivor, verdict.survivor)
        if newest != verdict.survivor:
            pair = measured.get((min(position, newest), max(position, newest)), (None, None))
            verdicts[position] = _Verdict(newest, VERSION, "newest_version", *pair)


def _judge(units: Sequence[_Unit], policy: DedupPolicy, found: Signatures, compare: Comparisons) -> tuple[list[_Link], list[_Verdict]]:
    links = _links(units, policy, found, compare)
    verdicts = _merge(units, links)
    if policy.versions == "newest":
        _keep_newest(units, links, verdicts)
    return links, verdicts


def survivors(
    documents: Sequence[dict[str, Any]],
    texts: Mapping[str, str],
    policies: Sequence[DedupPolicy],
    protected: Sequence[str],
    store: ContentStore | None = None,
) -> Iterator[dict[str, str]]:
    """For each policy (of one shingle length) the survivor of every document, both by doc_id, as in `near_duplicates`.

    `documents` and `texts` are what `parted` gives.
    """
    units = _units(documents, protected)
    compare: Comparisons | None = None
    found: dict[int, Signatures] = {}
    for policy in policies:
        compare = compare or Comparisons(texts, policy.shingle_length)
        if policy.permutations not in found:
            found = {policy.permutations: minhash.signatures(texts, policy.shingle_length, policy.permutations, store)}
        _, verdicts = _judge(units, policy, found[policy.permutations], compare)
        heads = [units[verdict.survivor].head["doc_id"] for verdict in verdicts]
        yield {document["doc_id"]: head for unit, head in zip(units, heads, strict=True) for document in unit.members}


def near_duplicates(
    documents: Iterable[Mapping[str, Any]],
    policy: DedupPolicy,
    protected: Sequence[str],
    store: ContentStore | None = None,
    on_done: Callable[[int, int], None] | None = None,
    texts: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Rows of `near_duplicates`: a verdict for every document with status ok, and the verified pairs behind them.

    With `texts`, those of the documents by their hash, no text is held that is not being compared.

    Shingles are characters, lower case, white space collapsed. Pairs that share an LSH band are compared exactly; from
    `policy.threshold` on they are `exact` (same text), `near`, `version` (same `version_of`, or same title with two
    versions) or `blocked`. Documents that differ in tenant, groups, jurisdiction, publication state, language or a field
    of `protected` (a column or a key of `fields`) are never merged. Documents that share `version_of` are linked to the
    newest whatever their similarity.

    Pairs under the threshold of which one stands in the other to the share `policy.containment` are `contained` (or
    `version`): linked, never merged. The LSH index is made for the threshold, so it proposes fewer of them the more
    the longer text adds: at the defaults 9 in 10 where a text is 70% of what contains it, 1 in 4 where it is half, fewer
    of many texts in one frame, whose chances are not independent.

    The survivor is chosen by publication state, newest version, newest date, longest text, smallest doc_id; `rule` names
    what decided. Every dropped document is itself similar to its survivor; a cluster whose ends are not may keep several.
    Versions are kept, or with `versions="newest"` the newest inside one boundary. Among equal copies pairs are
    listed with the survivor only.
    """
    good, texts = parted(documents, texts)
    units = _units(good, protected)
    found = minhash.signatures(texts, policy.shingle_length, policy.permutations, store, on_done)
    links, verdicts = _judge(units, policy, found, Comparisons(texts, policy.shingle_length))

    clusters = _Groups(len(units))
    for link in links:
        if link.relation in (EXACT, NEAR):
            clusters.join(link.one, link.other)
    smallest: dict[int, str] = {}
    for position, unit in enumerate(units):
        root, first = clusters.find(position), min(d["doc_id"] for d in unit.members)
        smallest[root] = min(smallest.get(root, first), first)

    stated = {
        "shingle": policy.shingle,
        "permutations": policy.permutations,
        "bands": policy.shape[0],
        "threshold": policy.threshold,
        "status": "ok",
        "reason": None,
    }
    rows: list[dict[str, Any]] = []
    kept = {unit.head["doc_id"] for position, unit in enumerate(units) if verdicts[position].survivor == position}

    def pair(one: str, other: str, relation: str, cluster: str, jaccard: float, containment: float, rule: str) -> None:
        first, second = sorted((one, other))
        rows.append(
            {
                "row": "pair",
                "doc_id": first,
                "other_doc_id": second,
                "relation": relation,
                "cluster": cluster,
                "jaccard": jaccard,
                "containment": containment,
                "kept": first in kept,
                "rule": rule,
                **stated,
            }
        )

    for position, unit in enumerate(units):
        survivor = units[verdicts[position].survivor].head
        cluster = smallest[clusters.find(position)]
        for document in unit.members:
            verdict = verdicts[position]
            if document is not unit.head:
                pair(unit.head["doc_id"], document["doc_id"], EXACT, cluster, 1.0, 1.0, _criterion(unit.head, document))
                if survivor is unit.head:
                    verdict = _Verdict(position, EXACT, _criterion(survivor, document), 1.0, 1.0)
            rows.append(
                {
                    "row": "document",
                    "doc_id": document["doc_id"],
                    "other_doc_id": survivor["doc_id"],
                    "relation": verdict.relation,
                    "cluster": cluster,
                    "jaccard": verdict.jaccard,
                    "containment": verdict.containment,
                    "kept": document is survivor,
                    "rule": verdict.rule,
                    **stated,
                }
            )
    for link in links:
        one, other = units[link.one].head, units[link.other].head
        rule = link.rule_for(link.one if one["doc_id"] < other["doc_id"] else link.other)
        if not rule:
            merged = verdicts[link.other].survivor == link.one
            rule = _criterion(one, other) if merged else "merged_elsewhere"
        cluster = min(smallest[clusters.find(link.one)], smallest[clusters.find(link.other)])
        pair(one["doc_id"], other["doc_id"], link.relation, cluster, link.jaccard, link.containment, rule)
    return sorted(rows, key=lambda row: (row["row"], row["doc_id"], row["other_doc_id"]))


def unique_documents(documents: Iterable[Mapping[str, Any]], verdicts: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Rows of `unique_documents`: the surviving documents in their order, each with the documents merged into it.

    `verdicts` are rows of `near_duplicates`, pairs and all. Raises ValueError for a document with status ok that has no verdict.
    """
    by_id = {row["doc_id"]: row for row in verdicts if row["row"] == "document"}
    absorbed: dict[str, list[str]] = defaultdict(list)
    for doc_id in sorted(by_id):
        if not by_id[doc_id]["kept"]:
            absorbed[by_id[doc_id]["other_doc_id"]].append(doc_id)
    for document in documents:
        if document["status"] != "ok":
            continue
        if document["doc_id"] not in by_id:
            raise ValueError(f"no verdict on {document['doc_id']}: near_duplicates was made from other documents")
        if by_id[document["doc_id"]]["kept"]:
            yield {name: document[name] for name in UNIQUE_COLUMNS} | {"absorbed": absorbed.get(document["doc_id"], [])}
