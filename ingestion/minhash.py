"""Which texts may be similar, and how similar two texts are: shingles, MinHash signatures, LSH bands, candidates.

Signatures are those of datasketch's permutations, computed a text at a time instead of a shingle at a time. Texts are all that is
known here: what a document is and what may be merged is `dedup`'s affair, where signatures are kept the caller's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol

import numpy as np

SCHEME: Final = "affine32"
"""datasketch's permutation scheme; named in every cached signature's key, with the seed."""
SEED: Final = 1
_LARGEST_MISS: Final = 0.01
_CELLS: Final = 1 << 17  # values by permutations at once: half a MiB, which stays in a core's own cache
_STORED: Final = 256  # texts between two visits to the store
_PAIRS: Final = 1 << 14  # pairs of signatures compared at once
_KEPT_SHINGLES: Final = 1 << 23  # 64 MiB of shingle sets


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
    codes = np.frombuffer(" ".join(text.lower().split()).encode("utf-32-le", "surrogatepass"), dtype="<u4")
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
    ordered = np.sort(_mixed(hashes))
    first = np.ones(count, dtype=bool)  # np.unique does the same and takes several times as long on a page of text
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def similarity(one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """True Jaccard similarity and containment (shared over the smaller) of two sets of shingles."""
    if not len(one) or not len(other):
        return 0.0, 0.0
    shared = len(np.intersect1d(one, other, assume_unique=True))
    return shared / (len(one) + len(other) - shared), shared / min(len(one), len(other))


class Comparisons:
    """True similarities of pairs of texts by text hash. Shingle sets are made when needed, and the latest alone are kept."""

    def __init__(self, texts: Mapping[str, str], shingle_length: int) -> None:
        self._texts, self._length = texts, shingle_length
        self._sets: OrderedDict[str, np.ndarray] = OrderedDict()
        self._held = 0
        self._known: dict[tuple[str, str], tuple[float, float]] = {}

    def __call__(self, one: str, other: str) -> tuple[float, float]:
        """Jaccard similarity and containment; of a text with itself both are 1."""
        if one == other:
            return 1.0, 1.0
        pair = (min(one, other), max(one, other))
        if pair not in self._known:
            self._known[pair] = similarity(self._set(pair[0]), self._set(pair[1]))
        return self._known[pair]

    def _set(self, sha: str) -> np.ndarray:
        if sha in self._sets:
            self._sets.move_to_end(sha)
            return self._sets[sha]
        made = self._sets[sha] = shingles(self._texts[sha], self._length)
        self._held += len(made)
        while self._held > _KEPT_SHINGLES and len(self._sets) > 1:
            self._held -= len(self._sets.popitem(last=False)[1])
        return made


# --------------------------------------------------------------------------------------------------------- signatures
@lru_cache(maxsize=8)
def _permutations(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Factors and offsets of datasketch's permutations, a row each."""
    from datasketch import MinHash

    factors, offsets = MinHash(num_perm=count, seed=SEED, scheme=SCHEME).permutations
    return factors[:, None].copy(), offsets[:, None].copy()


def minima(sets: Iterable[np.ndarray], permutations: int) -> Iterator[np.ndarray]:
    """The MinHash signature of each set of 32-bit hashes: uint32, one value a permutation.

    Equal to what datasketch's `MinHash(permutations, seed=SEED, scheme=SCHEME).update` makes of the values one by one:
    MurmurHash3's finaliser, then the least of a * h + b modulo 2^32. An empty set has the largest value everywhere.
    """
    factors, offsets = _permutations(permutations)
    width = max(1, _CELLS // permutations)
    matrix = np.empty((permutations, width), dtype=np.uint32)
    for values in sets:
        mixed = values.astype(np.uint32)
        mixed ^= mixed >> np.uint32(16)
        mixed *= np.uint32(0x85EBCA6B)
        mixed ^= mixed >> np.uint32(13)
        mixed *= np.uint32(0xC2B2AE35)
        mixed ^= mixed >> np.uint32(16)
        least = np.full(permutations, 0xFFFFFFFF, dtype=np.uint32)
        for start in range(0, len(mixed), width):
            part = mixed[start : start + width]
            images = matrix[:, : len(part)]
            np.multiply(factors, part, out=images)
            images += offsets
            np.minimum(least, images.min(axis=1), out=least)
        yield least


@dataclass(frozen=True)
class Signatures:
    """Texts by hash, in order: a row of `values` (texts by permutations, uint32) and a size (distinct shingles) each."""

    shas: list[str]
    values: np.ndarray
    sizes: np.ndarray


def signatures(
    texts: Mapping[str, str],
    shingle_length: int,
    permutations: int,
    store: ContentStore | None = None,
    on_done: Callable[[int, int], None] | None = None,
) -> Signatures:
    """Signatures of texts given by hash; those the store holds are not computed. `on_done` is told texts done and texts in all."""
    prefix = f"minhash/{SCHEME}-{SEED}/char-{shingle_length}/{permutations}/"
    shas = sorted(texts)
    values = np.empty((len(shas), permutations), dtype=np.uint32)
    sizes = np.empty(len(shas), dtype=np.int64)
    rows, done = {sha: row for row, sha in enumerate(shas)}, 0

    def told() -> None:
        nonlocal done
        done += 1
        if on_done is not None:
            on_done(done, len(shas))

    def sets(missing: Sequence[str]) -> Iterator[np.ndarray]:
        for sha in missing:
            hashes = shingles(texts[sha], shingle_length)
            sizes[rows[sha]] = len(hashes)
            yield hashes >> np.uint64(32)

    for start in range(0, len(shas), _STORED):
        part = shas[start : start + _STORED]
        missing = []
        known = store.get_many([prefix + sha for sha in part]) if store is not None else {}
        for sha in part:
            blob = known.get(prefix + sha, b"")
            if len(blob) != 4 * (permutations + 1):
                missing.append(sha)
                continue
            stored = np.frombuffer(blob, dtype="<u4")
            sizes[rows[sha]], values[rows[sha]] = stored[0], stored[1:]
            told()
        fresh: dict[str, bytes] = {}
        for sha, signature in zip(missing, minima(sets(missing), permutations), strict=True):
            values[rows[sha]] = signature
            fresh[prefix + sha] = np.append(sizes[rows[sha]], signature).astype("<u4").tobytes()
            told()
        if store is not None and fresh:
            store.put_many(fresh)
    return Signatures(shas, values, sizes)


# --------------------------------------------------------------------------------------------------------- candidates
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


def share_a_band(one: np.ndarray, other: np.ndarray, shape: tuple[int, int]) -> bool:
    """Whether an index of `shape` (bands, rows) proposes a pair of signatures."""
    used = shape[0] * shape[1]
    return bool((one[:used] == other[:used]).reshape(shape).all(axis=1).any())


def _least_estimate(permutations: int, similarity: np.ndarray) -> np.ndarray:
    """The share of equal values that a pair of this similarity stays under about once in 30,000: four deviations below it."""
    least: np.ndarray = similarity - 4 * np.sqrt(similarity * (1 - similarity) / permutations)
    return least


def plausible(found: Signatures, ones: np.ndarray, others: np.ndarray, threshold: float, containment: float | None) -> np.ndarray:
    """Which pairs of rows are worth a comparison, by their sizes and by the share of their values that are equal.

    Worth it are pairs that may reach the Jaccard similarity `threshold`, and with `containment` those of which one may stand
    to that share in the other: a set of s shingles of which a share c is among another's l has similarity c s / (s + l - c s).
    """
    permutations = found.values.shape[1]
    estimate = (found.values[ones] == found.values[others]).mean(axis=1)
    smaller, larger = (edge(found.sizes[ones], found.sizes[others]) for edge in (np.minimum, np.maximum))
    some = smaller > 0
    worth: np.ndarray = some & (smaller / np.maximum(larger, 1) >= threshold)
    worth &= estimate >= _least_estimate(permutations, np.asarray(threshold))
    if containment is not None:
        shared = containment * smaller
        worth |= some & (estimate >= _least_estimate(permutations, shared / np.maximum(smaller + larger - shared, 1)))
    return worth


def candidates(found: Signatures, shape: tuple[int, int], threshold: float, containment: float | None = None) -> Iterator[tuple[str, str]]:
    """Pairs of text hashes, each pair in order, that share one of `shape` (bands, rows) and are `plausible`: those that
    datasketch's `MinHashLSH` proposes, sorted. Time and memory grow with the pairs proposed, so with the square of a group of
    texts that are all alike.
    """
    total = len(found.shas)
    codes = np.empty(0, dtype=np.int64)
    for band in range(shape[0]):
        keys = np.zeros(total, dtype=np.uint64)
        for column in range(band * shape[1], (band + 1) * shape[1]):
            keys = _mixed(keys * np.uint64(0x9E3779B97F4A7C15) + found.values[:, column] + np.uint64(1))
        order = np.argsort(keys, kind="stable")  # equal keys stand together, in order of their rows
        keys = keys[order]
        fresh = [codes]
        left, step = np.arange(total - 1), 1
        while len(left := left[keys[left] == keys[left + step]]):
            for start in range(0, len(left), _PAIRS):
                part = left[start : start + _PAIRS]
                ones, others = order[part], order[part + step]
                worth = plausible(found, ones, others, threshold, containment)
                fresh.append(ones[worth] * total + others[worth])
            step += 1
            left = left[left + step < total]
        codes = np.unique(np.concatenate(fresh))
    for code in codes.tolist():
        yield found.shas[code // total], found.shas[code % total]
