"""Who judges: a model of the settings behind the response store, and the embedder that answer relevancy compares with.

What belongs here: from a judge's name to what `scoring` asks through. What does not: prompts and verdicts (`scoring`), sending
(`resources`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from rag_eval_assets.assets._models import model_limits, open_model
from rag_eval_assets.assets._rows import Row
from rag_eval_assets.assets.embedding import open_embedder
from rag_eval_assets.graph import Step
from rag_eval_assets.resources.language_models import LanguageModel, Request
from rag_eval_assets.resources.scorers import load_scorer
from rag_eval_assets.scoring import preference
from rag_eval_assets.scoring.claim_judge import RELEVANT
from rag_eval_assets.scoring.entailment import Score, entailment_scores
from rag_eval_assets.scoring.judged import SIMILARITIES, judged_name, judged_scores
from rag_eval_assets.scoring.judging import Ask, Judgment, Open, Prompt
from rag_eval_assets.scoring.ragas_metrics import Embed
from rag_eval_assets.settings import Settings
from rag_eval_assets.storage.versions import work_key


def judge_settings(settings: Settings) -> dict[str, Any]:
    """What judged rows depend on: the judges with their models, and limits under which rows may have failed."""
    limits = model_limits(settings, [judge.model for judge in settings.judges.values()])
    return {"judges": settings.judge_parameters, **({"judge_limits": limits} if limits else {})}


def open_judge(step: Step, name: str) -> tuple[LanguageModel, Open]:
    """The model of a judge, which counts what it is asked, and how to ask it."""
    model = open_model(step, step.settings.judges[name].model)
    return model, asking(model)


def asking(model: LanguageModel) -> Open:
    """How a judge asks a model."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Ask]:
        async with model.session() as send:

            async def ask(prompt: Prompt) -> Judgment:
                found = await send(Request(prompt.messages, prompt.schema, prompt.repeat))
                reply = found.reply
                cost = model.cost(reply) if reply else None
                return Judgment(found.value, found.reason, found.detail, reply.text if reply else None, cost)

            yield ask

    return opened


def open_vectors(step: Step, name: str) -> Embed | None:
    """The embedder of a judge as a function over texts; None where it names none, or it is not there."""
    chosen = step.settings.judges[name].embedder
    embedder = open_embedder(step, chosen) if chosen else None
    if embedder is None:
        return None

    def embed(texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return [[float(number) for number in vector] for vector in embedder.embed(list(texts), query=True)]

    return embed


def open_scorer(step: Step, name: str) -> Score | None:
    """An entailment scorer of `scorers`; None where the libraries it needs are not installed."""
    found = load_scorer(step.settings.scorers[name].model_dump(), step.folder.path)
    return found.score if found else None


def judged_work(
    step: Step, questions: Sequence[Row], contexts: Mapping[str, Row], answers: Mapping[str, Row]
) -> dict[str, tuple[str, str]]:
    """(question, metric) by work key: each depends on question, answer and context, and on what of its judge or scorer shapes it."""
    shaping = {f"entailment@{name}": part for name, part in step.settings.scorer_parameters.items()}
    for name, judge in step.settings.judges.items():
        for metric in judge.metrics:
            own = {"endpoint": priceless(step.settings, name)}
            if metric in RELEVANT:
                own["threshold"] = judge.relevance_threshold
            if metric in SIMILARITIES and judge.embedder:
                own["embedder"] = step.settings.embedders[judge.embedder].model_dump(mode="json")
            shaping[judged_name(metric, name)] = own
    found = {}
    for question in questions:
        key = question["question_id"]
        delivered = {name: value for name, value in contexts.get(key, {}).items() if name != "passages"}
        for metric, own in shaping.items():
            found[work_key(step.code, metric, own, question, answers.get(key), delivered)] = (key, metric)
    return found


def judge_answers(
    step: Step, todo: Sequence[tuple[str, str]], questions: Sequence[Row], contexts: Mapping[str, Row], answers: Mapping[str, Row]
) -> tuple[list[Row], Counter[str]]:
    """Rows of system_scores for (question, metric) pairs, and what became of the requests."""
    rows: list[Row] = []
    counts: Counter[str] = Counter()
    for name, judge in step.settings.judge_parameters.items():
        names = {judged_name(metric, name): metric for metric in judge["metrics"]}
        wanted: defaultdict[str, set[str]] = defaultdict(set)
        for question, metric in todo:
            if metric in names:
                wanted[question].add(names[metric])
        if wanted:
            model, opened = open_judge(step, name)
            rows += judged_scores(
                questions, list(answers.values()), list(contexts.values()), name=name, judge=judge, open_judge=opened,
                embed=open_vectors(step, name), wanted=wanted, on_done=step.progress,
            )  # fmt: skip
            counts.update(model.counts)
    for name in step.settings.scorers:
        asked = {question for question, metric in todo if metric == f"entailment@{name}"}
        if asked:
            own = [q for q in questions if q["question_id"] in asked]
            rows += entailment_scores(own, answers, contexts, name, open_scorer(step, name), step.progress)
    return rows, counts


def pairs_of(settings: Settings) -> dict[str, list[tuple[str, str]]]:
    """Pairs of systems by the judge that prefers between them; judges without pairs left out."""
    return {name: list(dict.fromkeys(judge.pairs)) for name, judge in sorted(settings.judges.items()) if judge.pairs}


def pair_id(row: Mapping[str, Any]) -> tuple[str, ...]:
    """What tells one case, or its row of preferences, from another."""
    question = row["question_id"] if "question_id" in row else row["question"]["question_id"]
    return row["judge"], row["candidate"], row["other"], question


def pair_cases(step: Step, questions: Sequence[Row], said: Mapping[str, Mapping[str, Row]]) -> dict[str, Row]:
    """Cases of `preference.preferences` by work key: what a row depends on is the question, both answers and the judge's model."""
    found: dict[str, Row] = {}
    for judge, pairs in pairs_of(step.settings).items():
        endpoint = priceless(step.settings, judge)
        for candidate, other in pairs:
            for question in questions:
                answers = [said[system].get(question["question_id"]) for system in (candidate, other)]
                key = work_key(step.code, endpoint, judge, candidate, other, question, answers)
                names = {"judge": judge, "candidate": candidate, "other": other, "question": question}
                found[key] = {**names, "candidate_answer": answers[0], "other_answer": answers[1]}
    return found


def prefer(step: Step, cases: Sequence[Row]) -> tuple[list[Row], Counter[str]]:
    """Rows of preferences of the cases, and what became of the requests."""
    rows: list[Row] = []
    counts: Counter[str] = Counter()
    for judge in sorted({case["judge"] for case in cases}):
        model, opened = open_judge(step, judge)
        rows += preference.preferences([c for c in cases if c["judge"] == judge], open_judge=opened, on_done=step.progress)
        counts.update(model.counts)
    return rows, counts


def priceless(settings: Settings, judge: str) -> dict[str, Any]:
    """What of a judge's model shapes its verdicts: another price table asks nothing anew."""
    return {name: value for name, value in settings.models[settings.judges[judge].model].identity.items() if name != "prices"}
