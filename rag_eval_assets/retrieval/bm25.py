"""BM25 over chunk texts: Lucene's variant from bm25s, with Snowball stemming and stop words by language.

What belongs here: text analysis and lexical scores. What does not: predicates (they arrive as masks) and the table of rankings.
Term frequency counts: a word said three times weighs more than once. Document frequency and mean length are those of the whole
index, whatever a caller may read of it.
"""

from __future__ import annotations

import logging
import re
import time
import unicodedata
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_eval_assets.retrieval.ordering import Hits, Mask, Scores, best_first

if TYPE_CHECKING:
    from ingestion.minhash import ContentStore

LANGUAGES: dict[str, str] = {
    "da": "danish",
    "de": "german",
    "en": "english",
    "es": "spanish",
    "fr": "french",
    "it": "italian",
    "nl": "dutch",
    "no": "norwegian",
    "nb": "norwegian",
    "pt": "portuguese",
    "ru": "russian",
    "sv": "swedish",
}
"""ISO 639-1 code to the name that Snowball's stemmers and bm25s's stop lists (NLTK's, Lucene's for English) share."""

_WORD = re.compile(r"(?u)\b\w\w+\b")  # the words of scikit-learn and bm25s, which the published figures stand on
_STOP_LISTS = {"english": "STOPWORDS_EN"}
ANALYSERS = ("by_language", "english", "dutch", "german", "plain")
PLAIN = "plain"
KEPT_AT_ONCE = 4096  # texts analysed between two writes of the store


def analyser_of(analyser: str, language: str) -> str:
    """The analyser for a text of that language: by_language follows it, and is plain for a language without a stemmer."""
    if analyser not in ANALYSERS:
        raise ValueError(f"no analyser {analyser!r}; known: {', '.join(ANALYSERS)}")
    return LANGUAGES.get(language, PLAIN) if analyser == "by_language" else analyser


def analyse(texts: Sequence[str], languages: Sequence[str], analyser: str) -> list[list[str]]:
    """Terms of each text in order, repeats kept: NFC, lower case, words of two and more characters, stop words out, stemmed.

    `plain` neither removes stop words nor stems. Raises ValueError for an unknown analyser.
    """
    names = [analyser_of(analyser, language) for language in languages]
    term_of = {name: _Terms(name) for name in sorted(set(names))}
    terms = []
    for text, name in zip(texts, names, strict=True):
        known = term_of[name]
        terms.append([term for word in _WORD.findall(unicodedata.normalize("NFC", text).lower()) if (term := known[word])])
    return terms


def analyse_known(
    texts: Sequence[str], text_sha256: Sequence[str], languages: Sequence[str], analyser: str, store: ContentStore | None
) -> list[list[str]]:
    """`analyse` for texts that return with every sync: those that `store` holds are not analysed again.

    The store belongs to one state of this module and its libraries; its keys name analyser and text.
    """
    if store is None:
        return analyse(texts, languages, analyser)
    keys = [f"{analyser_of(analyser, language)}/{sha256}" for language, sha256 in zip(languages, text_sha256, strict=True)]
    terms = {key: blob.decode().split() for key, blob in store.get_many(keys).items()}
    new = [at for key, at in {key: at for at, key in enumerate(keys)}.items() if key not in terms]
    for start in range(0, len(new), KEPT_AT_ONCE):
        part = new[start : start + KEPT_AT_ONCE]
        made = dict(
            zip([keys[at] for at in part], analyse([texts[at] for at in part], [languages[at] for at in part], analyser), strict=True)
        )
        store.put_many({key: " ".join(words).encode() for key, words in made.items()})
        terms |= made
    return [terms[key] for key in keys]


class _Terms(dict[str, str]):
    """Word to its term under one analyser, empty for a stop word; each distinct word is stemmed once in a call."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._stem: Any = None
        if name != PLAIN:
            import Stemmer
            from bm25s import stopwords

            self.update(dict.fromkeys(getattr(stopwords, _STOP_LISTS.get(name, f"STOPWORDS_{name.upper()}")), ""))
            self._stem = Stemmer.Stemmer(name).stemWord

    def __missing__(self, word: str) -> str:
        term = self[word] = self._stem(word) if self._stem is not None else word
        return term


class Bm25Index:
    """An inverted index with each term's score in each chunk worked out in advance (bm25s, method lucene, float32).

    score = sum over query terms of idf * tf / (tf + k1 * (1 - b + b * length / mean length)), with
    idf = ln(1 + (N - df + .5) / (df + .5)); a term said twice in the query counts twice. Source: Kamphuis et al. 2020,
    "Which BM25 do you mean?", the variant "Lucene (accurate)".
    """

    def __init__(self, terms: Sequence[Sequence[str]], *, k1: float, b: float) -> None:
        self._index: Any = None
        self.terms = terms
        vocabulary = {term: number for number, term in enumerate(sorted(set(chain.from_iterable(terms))))}
        if vocabulary:
            import bm25s

            # The library sets its own logger to DEBUG, which would fill the log of every run.
            logging.getLogger("bm25s").setLevel(logging.WARNING)
            self._index = bm25s.BM25(k1=k1, b=b, method="lucene")
            numbers = [list(map(vocabulary.__getitem__, words)) for words in terms]
            self._index.index((numbers, vocabulary), show_progress=False)

    def search(self, query: Sequence[str], eligible: Mask | None, depth: int) -> Hits:
        """The best `depth` chunks among the eligible ones (None: all) that share a term with the query."""
        started = time.perf_counter()
        known = self._index.get_tokens_ids(query) if self._index is not None else []
        if not known:
            return Hits(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32), seconds=time.perf_counter() - started)
        return self._best(self._index.get_scores_from_ids(known), eligible, depth, started)

    def search_weighted(self, query: Mapping[str, float], eligible: Mask | None, depth: int) -> Hits:
        """`search` for a query whose terms count as much as their weights (over 0) say, whole or not."""
        started = time.perf_counter()
        if self._index is None:
            return Hits(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32), seconds=time.perf_counter() - started)
        data, indices, indptr = (self._index.scores[name] for name in ("data", "indices", "indptr"))
        total = np.zeros(len(self.terms))
        for term in sorted(query):  # float sums depend on their order
            number = self._index.vocab_dict.get(term)
            if number is not None:
                part = slice(indptr[number], indptr[number + 1])
                total[indices[part]] += query[term] * data[part]
        return self._best(total.astype(np.float32), eligible, depth, started)

    @staticmethod
    def _best(scores: Scores, eligible: Mask | None, depth: int, started: float) -> Hits:
        positions = np.flatnonzero(scores > 0 if eligible is None else (scores > 0) & eligible)
        positions, scores = best_first(positions, scores[positions], depth)
        return Hits(positions, scores, seconds=time.perf_counter() - started)
