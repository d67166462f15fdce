"""What one field's type cannot say of settings: names that stand for nothing, and texts with a form of their own.

What belongs here: (location, what is wrong) of each such problem. What does not: the fields and their bounds (`settings`), and names
that only the folder's files make known (`assets.golden` checks slices).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from rag_eval_assets.strict import Location, Problem

if TYPE_CHECKING:
    from rag_eval_assets.settings import Gate, Retriever, Settings, System
    from rag_eval_assets.settings.policy import Claim, Policy

CATEGORIES = (
    "Address", "Boilerplate", "CodeSnippet", "CompositeElement", "DocumentData", "EmailAddress", "FigureCaption", "Footer", "Footnote",
    "Form", "FormKeysValues", "Formula", "Header", "Image", "ListItem", "NarrativeText", "PageBreak", "PageNumber", "Table", "TableChunk",
    "Title", "UncategorizedText",
)  # fmt: skip
"""Element categories that a parser may give: unstructured's, and Boilerplate and Footnote, which are ours."""

_WRITTEN = ("rewrite", "multi_query", "hyde")
_SEARCHES = ("bm25", "rm3", "dense", "run_file", *_WRITTEN)
_FUSIONS = ("rrf", "weighted", "convex")
LANES = {
    "rm3": ("bm25",),
    **dict.fromkeys(_WRITTEN, ("bm25", "dense")),
    **dict.fromkeys(_FUSIONS, _SEARCHES),
    "rerank": (*_SEARCHES, *_FUSIONS),
}
"""Kinds of retriever that a kind may be built on."""

_NO_MODELS = ("none; add one under models",)

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_CRON: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 7, _DAYS),
)
_DAYS_OF_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def unresolved(settings: Settings) -> Iterator[Problem]:
    """Every name in settings that stands for nothing. Raises ValueError where the chunkings themselves cannot be listed."""
    from rag_eval_assets.partitions import chunking_keys

    keys = chunking_keys(settings.chunkings)
    for number, grid in enumerate(settings.chunkings):
        yield from _unknown(("chunkings", number, "embedder"), "embedder", filter(None, [grid.embedder]), settings.embedders)
    for name, embedder in settings.embedders.items():
        wanted = filter(None, [embedder.context_model])
        yield from _unknown(("embedders", name, "context_model"), "model", wanted, settings.models or _NO_MODELS)
    yield from _parsers(settings)
    for name, retriever in settings.retrievers.items():
        yield from ((("retrievers", name, *where), text) for where, text in _retriever(retriever, settings, keys))
    for name, system in settings.systems.items():
        yield from ((("systems", name, *where), text) for where, text in _system(system, settings, keys))
    yield from _unknown(("diagnosis", "rerankers"), "reranker", settings.diagnosis.rerankers, settings.rerankers)
    for name in settings.experiments:
        yield from _unknown(("experiments", name), "system", [name], settings.systems)
    yield from _unknown(("ann", "chunkings"), "chunking", settings.ann.chunkings, keys)
    yield from _unknown(("cleaning", "drop_categories"), "category", settings.cleaning.drop_categories, CATEGORIES)
    yield from _scoring(settings)
    if len({name.replace("-", "_").replace(".", "_") for name in settings.gates}) < len(settings.gates):
        yield ("gates",), "two names differ in '-', '.' and '_' only, which Dagster's check names cannot tell apart"
    for name, gate in settings.gates.items():
        yield from ((("gates", name, *where), text) for where, text in _gate(gate, settings, keys))


def _unknown(location: Location, what: str, names: Iterable[str], known: Iterable[str]) -> Iterator[Problem]:
    listed = list(known)
    yield from ((location, f"no {what} {name!r}; known: {', '.join(listed)}") for name in names if name not in listed)


def _parsers(settings: Settings) -> Iterator[Problem]:
    for name, chosen in settings.parsers.items():
        if chosen.kind == "imported" and "." in name:
            yield ("parsers", name), "the name of an imported parser is part of file names and holds no '.'"
    for doc_class, parser in settings.parser_of.items():
        if parser not in settings.parsers:
            yield ("parser_of", doc_class), f"no parser {parser!r}; known: {', '.join(settings.parsers)}"
        elif doc_class not in settings.parsers[parser].classes:
            yield ("parser_of", doc_class), f"parser {parser!r} does not declare class {doc_class!r} in its classes"


def _retriever(retriever: Retriever, settings: Settings, keys: Sequence[str]) -> Iterator[Problem]:
    if retriever.kind == "dense" and retriever.embedder not in settings.embedders:
        yield ("embedder",), f"no embedder {retriever.embedder!r}"
    kinds = LANES.get(retriever.kind, ())
    for lane in retriever.of:
        if lane not in settings.retrievers or settings.retrievers[lane].kind not in kinds:
            yield ("of",), f"{lane!r} is no retriever of kind {', '.join(kinds)}"
        elif not set(settings.retrievers[lane].chunkings or keys) >= set(retriever.chunkings or keys):
            yield ("chunkings",), f"lane {lane!r} does not run on all of them"
    if retriever.model is not None:
        yield from _unknown(("model",), "model", [retriever.model], settings.models or _NO_MODELS)
    if retriever.kind == "rerank":
        yield from _unknown(("reranker",), "reranker", [str(retriever.reranker)], settings.rerankers)
        if retriever.depth > settings.scoring.depth:
            yield ("depth",), f"{retriever.depth} is over scoring.depth {settings.scoring.depth}"
    yield from _unknown(("chunkings",), "chunking", retriever.chunkings, keys)


def _system(system: System, settings: Settings, keys: Sequence[str]) -> Iterator[Problem]:
    if system.chunking is None or system.retriever is None:
        return
    yield from _unknown(("chunking",), "chunking", [system.chunking], keys)
    if system.retriever not in settings.retrievers:
        yield ("retriever",), f"no retriever {system.retriever!r}"
    elif not settings.retrievers[system.retriever].runs_on(system.chunking):
        yield ("retriever",), f"{system.retriever!r} does not run on {system.chunking!r}"
    if system.reader.model is not None:
        yield from _unknown(("reader", "model"), "model", [system.reader.model], settings.models or _NO_MODELS)
    if system.depth > settings.scoring.depth:
        yield ("depth",), f"{system.depth} is over scoring.depth {settings.scoring.depth}"


def _scoring(settings: Settings) -> Iterator[Problem]:
    from rag_eval_assets.scoring.answers import FLAGS, METRICS
    from rag_eval_assets.scoring.judged import METRICS as JUDGED
    from rag_eval_assets.scoring.ranking import measures

    deciding = {m.metric for m in measures(settings.scoring.ks, ()) if (m.cutoff, m.unit) == ("rank", "document")}
    yield from _unknown(("sweep", "metric"), "ranking metric", [settings.sweep.metric], sorted(deciding))
    if settings.sweep.k not in settings.scoring.ks:
        yield ("sweep", "k"), f"{settings.sweep.k} is not among scoring.ks {list(settings.scoring.ks)}"
    told = [name for name, (stage, _, _) in METRICS.items() if stage == "answer" and name not in FLAGS]
    yield from _unknown(("scoring", "pass_metric"), "answer metric", [settings.scoring.pass_metric], told)
    for name in settings.scorers.keys() & settings.judges.keys():
        yield ("scorers", name), "is the name of a judge too; metrics go by METRIC@NAME, so choose another"
    for name, judge in settings.judges.items():
        yield from _unknown(("judges", name, "metrics"), "judged metric", judge.metrics, JUDGED)
        yield from _unknown(("judges", name, "model"), "model", [judge.model], settings.models)
        for number, pair in enumerate(judge.pairs):
            yield from _unknown(("judges", name, "pairs", number), "system", pair, settings.systems)
            if pair[0] == pair[1]:
                yield ("judges", name, "pairs", number), f"pairs {pair[0]!r} with itself; name two systems"
        yield from _unknown(("judges", name, "embedder"), "embedder", filter(None, [judge.embedder]), settings.embedders)


# --------------------------------------------------------------------------------------------------------------- gates
def _gate(gate: Gate, settings: Settings, keys: Sequence[str]) -> Iterator[Problem]:
    """What a gate names that its source does not have: a metric, its unit, its cut-off, a scope."""
    if gate.source == "system_summary":
        yield from _summary_gate(gate, settings)
        scopes: Iterable[str] = settings.systems
    else:
        yield from _unknown(("metric",), f"metric of {gate.source}", [gate.metric], _metrics_of(gate.source))
        if gate.source == "ann_recall":
            measured = {*settings.ann.chunkings, *(system.chunking for system in settings.systems.values() if system.chunking)}
            scopes = _with_pairs([key for key in keys if key in measured], settings.embedders)
            if gate.k not in (0, settings.ann.k):
                yield ("k",), f"{gate.k} is not measured; ann.k is {settings.ann.k}"
        elif gate.source == "parse_quality":
            scopes = [s for name, parser in settings.parsers.items() for s in _with_pairs([name], parser.classes)]
        elif gate.source == "system_costs":
            scopes = settings.systems
        else:
            scopes = ["corpus"]
    yield from _unknown(("scope",), f"scope of {gate.source}", gate.scope, dict.fromkeys(scopes))


def _with_pairs(first: Collection[str], second: Collection[str]) -> list[str]:
    """Names that a scope of two parts goes by: either part, or both."""
    return [*first, *second, *(f"{one}/{two}" for one in first for two in second)]


def _metrics_of(source: str) -> Sequence[str]:
    """Metrics of the sources whose gates have one cut-off at most."""
    from ingestion.parse_quality import METRICS
    from rag_eval_assets.scoring.gates import ANN_METRICS, COST_METRICS, DEDUP_METRICS, EXCLUSION_METRICS

    known = {"system_costs": COST_METRICS, "ann_recall": ANN_METRICS, "filter_exclusion": EXCLUSION_METRICS, "dedup_quality": DEDUP_METRICS}
    return known.get(source, METRICS)


def policy_problems(policy: Policy, settings: Settings) -> Iterator[Problem]:
    """Every claim on something that is not scored, and every two claims that are one."""
    seen: dict[tuple[str | int, ...], str] = {}
    for name, claim in policy.claims.items():
        yield from ((("claims", name, *where), text) for where, text in _summary_gate(claim, settings))
        measure = (claim.metric, claim.k, claim.cutoff, claim.unit, claim.claim)
        if measure in seen:
            yield ("claims", name), f"is the claim of {seen[measure]!r} again; keep one"
        seen[measure] = name
    if clash := sorted(policy.claims.keys() & settings.gates.keys()):
        yield ("claims", clash[0]), "is the name of a gate in evaluation.yaml; choose another"


def _summary_gate(gate: Gate | Claim, settings: Settings) -> Iterator[Problem]:
    from rag_eval_assets.scoring.judged import SIMILARITIES, judged_name

    if any(word in gate.metric for word in ("similarity", *SIMILARITIES)):
        # A wrong number and a dropped negation look alike to a similarity.
        yield ("metric",), f"{gate.metric} is a similarity: it may be reported, not gate; correct or token_f1 can"
        return
    from rag_eval_assets.scoring.answers import FLAGS, METRICS, STRUCTURED
    from rag_eval_assets.scoring.ragas_metrics import STRING_METRICS
    from rag_eval_assets.scoring.ranking import measures

    if gate.metric in FLAGS:
        yield ("metric",), f"{gate.metric} is a flag whose precision and recall are not known here: it may be reported, not gate"
        return
    known = {(m.metric, m.k, m.unit) for m in measures(settings.scoring.ks, settings.scoring.token_budgets)}
    known |= {(name, 0, unit) for name, (_, unit, _) in METRICS.items()} | {(name, 0, "question") for name in STRING_METRICS}
    known |= {(name, 0, "question") for name in (STRUCTURED if settings.scoring.answer_schema else ())}
    known |= {(judged_name(metric, judge), 0, "question") for judge, chosen in settings.judges.items() for metric in chosen.metrics}
    known |= {(f"entailment@{scorer}", 0, "question") for scorer in settings.scorers}
    of_metric = {(k, unit) for metric, k, unit in known if metric == gate.metric}
    cuts = sorted(k for k, unit in of_metric if unit == gate.unit)
    if not of_metric:
        yield from _unknown(("metric",), "metric of system_summary", [gate.metric], sorted({metric for metric, _, _ in known}))
    elif not cuts:
        yield ("unit",), f"{gate.metric} is not counted by {gate.unit}; known: {', '.join(sorted({unit for _, unit in of_metric}))}"
    elif gate.k not in cuts:
        yield ("k",), f"{gate.metric} by {gate.unit} is not scored at {gate.k}; known: {', '.join(map(str, cuts))} (0 is no cut-off)"


# --------------------------------------------------------------------------------------------------------------- forms
def cron_problem(text: str) -> str | None:
    """What is wrong with a cron line of five fields (numbers, names, `*`, ranges, lists, steps); None for nothing."""
    fields = text.split()
    if len(fields) != len(_CRON):
        return f"{text!r} has {len(fields)} fields; a cron line has five: {', '.join(name for name, *_ in _CRON)}"
    for written, (name, low, high, names) in zip(fields, _CRON, strict=True):
        for part in written.split(","):
            span, slash, step = part.partition("/")
            ends = span.split("-")
            numbers = [_cron_number(end, low, names) for end in ends]
            whole = span == "*" or (span == "?" and name.startswith("day"))
            inside = len(ends) <= 2 and all(number is not None and low <= number <= high for number in numbers)
            if not (whole or inside) or (slash and not (step.isdecimal() and 1 <= int(step) <= high)):
                also = f", {names[0]} to {names[-1]}" if names else ""
                return f"{part!r} is no {name}: {low} to {high}{also}, *, a range such as {low}-{high}, a list, or a step such as */2"
    day, month = fields[2], fields[3]
    if day.isdecimal() and re.fullmatch(r"[0-9a-zA-Z,]+", month):
        numbers = [_cron_number(part, 1, _MONTHS) for part in month.split(",")]
        if all(number is not None and int(day) > _DAYS_OF_MONTH[number - 1] for number in numbers):
            return f"day {day} is in none of the months {month}"
    return None


def _cron_number(text: str, low: int, names: Sequence[str]) -> int | None:
    if text.lower() in names:
        return names.index(text.lower()) + low
    return int(text) if re.fullmatch(r"[0-9]{1,2}", text) else None


def glob_problem(glob: str) -> str | None:
    """What is wrong with the glob of a class rule; None for nothing."""
    from ingestion.sources import matches

    if not glob or glob.startswith("/") or glob.endswith("/") or "\\" in glob:
        return f"{glob!r} matches no file: write a path below corpus/ with '/', such as scans/** or *.pdf"
    try:
        matches(glob, "a")
    except re.error as error:
        return f"{glob!r} is no glob: {error}"
    rest = glob
    while (start := rest.find("[")) != -1:
        end = rest.find("]", start + 2)
        if end == -1:
            return f"{glob!r} is no glob: a '[' is not closed"
        rest = rest[end + 1 :]
    return None


def storage_problem(storage: str) -> str | None:
    """Why no file system stands for a table root; None where one does."""
    protocol, separator, _ = storage.partition("://")
    if not separator:
        return None if storage.strip() else "is blank; name a folder or a URL, or leave it out"
    from fsspec import available_protocols, get_filesystem_class

    try:
        get_filesystem_class(protocol)
    except ValueError:
        return f"no protocol {protocol!r}; known: {', '.join(sorted(available_protocols()))}"
    except ImportError as error:
        return f"protocol {protocol!r} needs a package that is not installed: {error}"
    return None


def workers_problem(address: str) -> str | None:
    """Why an address is none of a Dask scheduler, or cannot be used here; None where it can."""
    if not re.fullmatch(r"(tcp|tls)://[^\s:/]+:\d{1,5}", address):
        return f"{address!r} is no address such as tcp://scheduler:8786 or tls://scheduler:8786"
    return None if find_spec("distributed") else "needs a package that is not installed: install this project with its extra [dask]"
