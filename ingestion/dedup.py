"""Which documents are copies or versions of each other, which one survives, and how well that works on labelled pairs.

Candidates come from MinHash and locality-sensitive hashing (datasketch); every verdict rests on the true Jaccard similarity
of the shingle sets. What a document may be merged across is decided here; where signatures are kept is not.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

import numpy as np

from ingestion.rates import clopper_pearson

SCHEME: Final = "affine32"
"""datasketch's permutation scheme; named in every cached signature's key, with the seed."""
SEED: Final = 1
_LARGEST_MISS: Final = 0.01
_BATCH: Final = 4_000

UNIQUE: Final = "unique"
EXACT: Final = "exact"
NEAR: Final = "near"
VERSION: Final = "version"
BLOCKED: Final = "blocked"

# Never merged across, whatever the settings say: who may read it, where it holds, what language it speaks.
BOUNDARY: Final = ("tenant", "groups", "jurisdiction", "publication_state", "language")
_STATES: Final = {"published": 0, "draft": 1, "archived": 2}

UNIQUE_COLUMNS: Final = (
    "doc_id", "doc_class", "parser", "title", "language", "text", "text_sha256", "elements", "tenant", "groups", "jurisdiction",
    "publication_state", "locale", "version", "version_of", "published", "fields",
)  # fmt: skip


@dataclass(frozen=True)
class DedupPolicy:
    """Shingle length in characters, MinHash permutations, the Jaccard similarity from which two texts are near-duplicates,
    and whether all versions of a document are kept or the newest only."""

    shingle_length: int = 5
    permutations: int = 128
    threshold: float = 0.8
    versions: Literal["keep", "newest"] = "keep"

    @property
    def shingle(self) -> str:
        """Shingle unit and length."""
        return f"char-{self.shingle_length}"


class ContentStore(Protocol):
    """Bytes by key: a cache that may forget, never one that may be wrong."""

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The values there are, by key."""
        ...

    def put_many(self, items: Mapping[str, bytes]) -> None:
        """Keep values."""
        ...


# ----------------------------------------------------------------------------------------------------------- shingles
def _mixed(values: np.ndarray) -> np.ndarray:
    """splitmix64's finaliser, a bijection that spreads every bit (Steele, Lea and Flood 2014)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = values ^ (values >> np.uint64(31))
    return mixed


def shingles(text: str, length: int) -> np.ndarray:
    """The set of runs of `length` characters of `text`, lower case, white space collapsed: sorted 64-bit hashes.

    A shorter text is one shingle, an empty one has none. Two different shingles share a hash with a chance of 2^-64.
    """
    codes = np.frombuffer(" ".join(text.lower().split()).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    if not len(codes):
        return np.empty(0, dtype=np.uint64)
    if len(codes) < length:
        codes = np.pad(codes, (0, length - len(codes)))
    wide = codes.astype(np.uint64) + np.uint64(1)
    weights = _mixed(np.arange(1, length + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) | np.uint64(1)
    count = len(wide) - length + 1
    hashes = np.zeros(count, dtype=np.uint64)
    for offset in range(length):
        hashes += wide[offset : offset + count] * weights[offset]
    return np.unique(_mixed(hashes))


def similarity(one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """True Jaccard similarity and containment (shared over the smaller) of two sets of shingles."""
    if not len(one) or not len(other):
        return 0.0, 0.0
    shared = len(np.intersect1d(one, other, assume_unique=True))
    return shared / (len(one) + len(other) - shared), shared / min(len(one), len(other))


def _signature(hashes: np.ndarray, permutations: int) -> np.ndarray:
    from datasketch import MinHash

    sketch = MinHash(num_perm=permutations, seed=SEED, scheme=SCHEME, hashfunc=lambda value: value)
    values = (hashes >> np.uint64(32)).tolist()
    for start in range(0, len(values), _BATCH):  # a batch is a matrix of values by permutations
        sketch.update_batch(values[start : start + _BATCH])
    return np.asarray(sketch.hashvalues, dtype=np.uint32)


def _signatures(
    texts: Mapping[str, str],
    shingle_length: int,
    permutations: int,
    store: ContentStore | None,
    on_done: Callable[[int, int], None] | None = None,
) -> dict[str, np.ndarray]:
    """MinHash signatures by text hash; those the store holds are not computed."""
    prefix = f"minhash/{SCHEME}-{SEED}/char-{shingle_length}/{permutations}/"
    wanted = sorted(texts)
    known = store.get_many([prefix + sha for sha in wanted]) if store is not None else {}
    signatures: dict[str, np.ndarray] = {}
    fresh: dict[str, bytes] = {}
    for done, sha in enumerate(wanted, 1):
        blob = known.get(prefix + sha)
        if blob is not None and len(blob) == 4 * permutations:
            signatures[sha] = np.frombuffer(blob, dtype="<u4")
        else:
            signatures[sha] = _signature(shingles(texts[sha], shingle_length), permutations)
            fresh[prefix + sha] = signatures[sha].astype("<u4").tobytes()
        if store is not None and fresh and (len(fresh) == 256 or done == len(wanted)):
            store.put_many(fresh)
            fresh = {}
        if on_done is not None:
            on_done(done, len(wanted))
    return signatures


def bands(permutations: int, threshold: float) -> tuple[int, int]:
    """Bands and rows of the LSH index: the most rows whose index misses a pair at the threshold once in a hundred at most.

    A pair of similarity s shares a band with probability 1 - (1 - s^rows)^bands. Candidates are verified, so a false one
    costs time only, and a missed one a duplicate.
    """
    for rows in range(permutations // 2, 1, -1):
        count = permutations // rows
        if (1 - threshold**rows) ** count <= _LARGEST_MISS:
            return count, rows
    return permutations, 1


def _least_estimate(permutations: int, threshold: float) -> float:
    """Estimated similarity under which a candidate is not verified: four standard deviations below the threshold."""
    return threshold - 4 * math.sqrt(threshold * (1 - threshold) / permutations)


def _candidates(signatures: Mapping[str, np.ndarray], permutations: int, threshold: float) -> list[tuple[str, str]]:
    """Pairs of text hashes that share a band and are not clearly dissimilar, in order."""
    from datasketch import LeanMinHash, MinHashLSH

    index = MinHashLSH(num_perm=permutations, params=bands(permutations, threshold))
    least = _least_estimate(permutations, threshold)
    pairs: list[tuple[str, str]] = []
    for sha in sorted(signatures):
        sketch = LeanMinHash(seed=SEED, hashvalues=signatures[sha], scheme=SCHEME)
        proposed = sorted(index.query(sketch))
        pairs += [(other, sha) for other in proposed if (signatures[sha] == signatures[other]).mean() >= least]
        index.insert(sha, sketch)
    return pairs


# ---------------------------------------------------------------------------------------------------------- documents
def _natural(version: str | None) -> tuple[tuple[int, int, str], ...]:
    """A version's place in order: 2.10 after 2.9, none before all."""
    return tuple((1, int(part), "") if part.isdigit() else (0, 0, part) for part in re.findall(r"\d+|[^\W\d]+", version or ""))


def _preferred(documents: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Best survivor first: publication state, newest version, newest date, longest text, smallest doc_id."""
    ordered = sorted(documents, key=lambda d: d["doc_id"])
    ordered.sort(key=lambda d: len(d["text"]), reverse=True)
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
    return "most_complete" if len(survivor["text"]) != len(other["text"]) else "smallest_doc_id"


def _boundary(document: Mapping[str, Any], protected: Sequence[str]) -> tuple[tuple[str, Any], ...]:
    """Fields and values that two documents must share to be merged."""
    free = json.loads(document["fields"] or "{}")
    values: list[tuple[str, Any]] = []
    for name in dict.fromkeys((*BOUNDARY, *protected)):
        value = document[name] if name in document else free.get(name)
        values.append((name, json.dumps(sorted(value) if isinstance(value, (list, tuple, set)) else value, sort_keys=True)))
    return tuple(values)


def _are_versions(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
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
    """Two units that are similar, or versions."""

    one: int
    other: int
    relation: str
    jaccard: float
    containment: float
    rule: str


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


def _units(documents: Sequence[dict[str, Any]], protected: Sequence[str]) -> list[_Unit]:
    """Units, best survivor first."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for document in _preferred(documents):
        boundary = _boundary(document, protected)
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


def _links(
    units: Sequence[_Unit], policy: DedupPolicy, store: ContentStore | None, on_done: Callable[[int, int], None] | None
) -> list[_Link]:
    texts = {unit.sha: unit.head["text"] for unit in units}
    signatures = _signatures(texts, policy.shingle_length, policy.permutations, store, on_done)
    sets: dict[str, np.ndarray] = {}

    def compare(one: _Unit, other: _Unit) -> tuple[float, float]:
        if one.sha == other.sha:
            return 1.0, 1.0
        for sha in (one.sha, other.sha):
            if sha not in sets:
                sets[sha] = shingles(texts[sha], policy.shingle_length)
        return similarity(sets[one.sha], sets[other.sha])

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
        if relation != VERSION and differing:
            relation = BLOCKED
        links[one, other] = _Link(one, other, relation, *measured, rule)

    candidates = _candidates(signatures, policy.permutations, policy.threshold)
    for one, other in _text_pairs(units, candidates):
        measured = compare(units[one], units[other])
        if measured[0] >= policy.threshold:
            same = EXACT if units[one].sha == units[other].sha else NEAR
            link(one, other, VERSION if _are_versions(units[one].head, units[other].head) else same, measured)
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
                link(*pair, VERSION, compare(units[pair[0]], units[pair[1]]))
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
        kinds = {link.relation: link.rule for _, link in reversed(neighbours[position])}
        if len(unit.members) > 1:
            kinds[EXACT] = _criterion(unit.head, unit.members[1])
        relation = next((kind for kind in (EXACT, NEAR, VERSION, BLOCKED) if kind in kinds), UNIQUE)
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


def near_duplicates(
    documents: list[dict[str, Any]],
    policy: DedupPolicy,
    protected: Sequence[str],
    store: ContentStore | None = None,
    on_done: Callable[[int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """Rows of `near_duplicates`: a verdict for every document with status ok, and the verified pairs behind them.

    Shingles are characters, lower case, white space collapsed. Pairs that share an LSH band are compared exactly; from
    `policy.threshold` on they are `exact` (same text), `near`, `version` (same `version_of`, or same title with two
    versions) or `blocked`. Documents that differ in tenant, groups, jurisdiction, publication state, language or a field
    of `protected` (a column or a key of `fields`) are never merged. Documents that share `version_of` are linked to the
    newest whatever their similarity.

    The survivor is chosen by publication state, newest version, newest date, longest text, smallest doc_id; `rule` names
    what decided. Every dropped document is itself similar to its survivor; a cluster whose ends are not may keep several.
    Versions are kept, or with `versions="newest"` the newest inside one boundary. Among equal copies pairs are
    listed with the survivor only.
    """
    good = [d for d in documents if d["status"] == "ok"]
    units = _units(good, protected)
    links = _links(units, policy, store, on_done)
    verdicts = _merge(units, links)
    if policy.versions == "newest":
        _keep_newest(units, links, verdicts)

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
        rule = link.rule
        if not rule:
            merged = verdicts[link.other].survivor == link.one
            rule = _criterion(one, other) if merged else "merged_elsewhere"
        cluster = min(smallest[clusters.find(link.one)], smallest[clusters.find(link.other)])
        pair(one["doc_id"], other["doc_id"], link.relation, cluster, link.jaccard, link.containment, rule)
    return sorted(rows, key=lambda row: (row["row"], row["doc_id"], row["other_doc_id"]))


def unique_documents(documents: list[dict[str, Any]], verdicts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of `unique_documents`: the surviving documents, each with the documents merged into it.

    `verdicts` are rows of `near_duplicates`, pairs and all. Raises ValueError for a document with status ok that has no verdict.
    """
    by_id = {row["doc_id"]: row for row in verdicts if row["row"] == "document"}
    good = sorted((d for d in documents if d["status"] == "ok"), key=lambda d: d["doc_id"])
    if strays := [d["doc_id"] for d in good if d["doc_id"] not in by_id]:
        raise ValueError(f"no verdict on {', '.join(strays[:5])}: near_duplicates was made from other documents")
    absorbed: dict[str, list[str]] = defaultdict(list)
    for doc_id in sorted(by_id):
        if not by_id[doc_id]["kept"]:
            absorbed[by_id[doc_id]["other_doc_id"]].append(doc_id)
    return [
        {name: d[name] for name in UNIQUE_COLUMNS} | {"absorbed": absorbed.get(d["doc_id"], [])} for d in good if by_id[d["doc_id"]]["kept"]
    ]


# -------------------------------------------------------------------------------------------------------------- quality
def _labelled_pairs(labels: Sequence[Mapping[str, Any]], known: Mapping[str, Any]) -> list[tuple[str, str, bool]]:
    """Labelled pairs of documents that are there; where annotators differ the majority counts, and a tie leaves the pair out."""
    votes: Counter[tuple[str, str]] = Counter()
    for label in labels:
        one, other = label["doc_id"], label["other_doc_id"]
        if label["kind"] == "duplicate" and one in known and other in known and one != other:
            votes[min(one, other), max(one, other)] += 1 if label["value"] == "yes" else -1
    return [(one, other, votes[one, other] > 0) for one, other in sorted(votes) if votes[one, other]]


def _share_a_band(one: np.ndarray, other: np.ndarray, count: int, rows: int) -> bool:
    """Whether an LSH index with these bands proposes the pair."""
    return bool((one[: count * rows] == other[: count * rows]).reshape(count, rows).all(axis=1).any())


def _rated(name: str, successes: int, trials: int) -> dict[str, float | None]:
    if not trials:
        return {name: None, f"{name}_lower": None, f"{name}_upper": None}
    lower, upper = clopper_pearson(successes, trials)
    return {name: successes / trials, f"{name}_lower": lower, f"{name}_upper": upper}


def dedup_quality(
    documents: list[dict[str, Any]],
    labels: list[dict[str, Any]],
    policy: DedupPolicy,
    permutations: Sequence[int],
    thresholds: Sequence[float],
    store: ContentStore | None = None,
) -> list[dict[str, Any]]:
    """Rows of `dedup_quality`: each (permutations, threshold) of the sweep, and the setting in force, on labelled pairs.

    A pair counts as found if the LSH index proposes it and its true Jaccard similarity reaches the threshold; fields that
    keep documents apart do not enter, since labels say what a text is a copy of. `false_merge_rate` = found among pairs
    labelled no; `missed_merge_rate` = not found among those labelled yes. Limits are 95% Clopper-Pearson; a rate without
    a pair to measure on is null. Without labelled pairs every point is `not_applicable`, reason `no_pairs`.
    """
    known = {d["doc_id"]: d for d in documents if d["status"] == "ok"}
    pairs = _labelled_pairs(labels, known)
    texts = {known[doc_id]["text_sha256"]: known[doc_id]["text"] for one, other, _ in pairs for doc_id in (one, other)}
    sets = {sha: shingles(text, policy.shingle_length) for sha, text in texts.items()}
    shas = [(known[one]["text_sha256"], known[other]["text_sha256"], yes) for one, other, yes in pairs]
    jaccards = [similarity(sets[one], sets[other])[0] for one, other, _ in shas]
    in_force = (policy.permutations, policy.threshold)
    points = sorted({*((p, t) for p in permutations for t in thresholds), in_force})
    signatures = {count: _signatures(texts, policy.shingle_length, count, store) for count in sorted({count for count, _ in points})}
    rows: list[dict[str, Any]] = []
    for count, threshold in points:
        band_count, band_rows = bands(count, threshold)
        outcomes: Counter[tuple[bool, bool]] = Counter()
        for (one, other, yes), jaccard in zip(shas, jaccards, strict=True):
            left, right = signatures[count][one], signatures[count][other]
            proposed = _share_a_band(left, right, band_count, band_rows)
            likely = float((left == right).mean()) >= _least_estimate(count, threshold)
            outcomes[yes, proposed and likely and jaccard >= threshold] += 1
        merged, missed = outcomes[True, True], outcomes[True, False]
        false, apart = outcomes[False, True], outcomes[False, False]
        rows.append(
            {
                "permutations": count,
                "bands": band_count,
                "threshold": threshold,
                "labelled_pairs": len(pairs),
                **_rated("precision", merged, merged + false),
                **_rated("recall", merged, merged + missed),
                **_rated("false_merge_rate", false, false + apart),
                **_rated("missed_merge_rate", missed, merged + missed),
                "used": (count, threshold) == in_force,
                "status": "scored" if pairs else "not_applicable",
                "reason": None if pairs else "no_pairs",
            }
        )
    return rows
