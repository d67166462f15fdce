"""Commands on which a release is decided: baseline, compare, power, diagnose."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from rag_eval_assets.cli.base import BAD_INPUT, BLOCKED, FAILED, app, baseline_app, err, out, told, typed_errors


@baseline_app.command("save")
def baseline_save(
    context: typer.Context,
    name: str,
    system: str,
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite a baseline of that name.")] = False,
    policy: Annotated[Path | None, typer.Option(help="Policy file it will be compared under; that of evaluation.yaml without it.")] = None,
) -> None:
    """Keep a system's scores under a name, to compare later candidates with."""
    from rag_eval_assets.snapshots import save_snapshot

    out.print(escape(str(save_snapshot(context.obj, name, system, policy=policy, replace=replace))))


@app.command()
def compare(
    context: typer.Context,
    candidate: Annotated[str, typer.Argument(help="A system of evaluation.yaml, scored by the last sync.")],
    baseline: Annotated[str, typer.Argument(help="A baseline, saved by `rag-eval baseline save`.")],
    policy: Annotated[Path | None, typer.Option(help="Policy file; that of evaluation.yaml without it.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML here, a test case a claim.")] = None,
    as_json: Annotated[Path | None, typer.Option("--json", help="Write every row as JSON here.")] = None,
) -> None:
    """Decide a policy's claims about a system against a baseline: exit code 0 all pass, 1 an error, 3 a claim blocks."""
    from rag_eval_assets.report import ci, formats
    from rag_eval_assets.snapshots import compare_with_snapshot

    try:
        rows = compare_with_snapshot(context.obj, candidate, baseline, policy)
    except (*typed_errors(), RuntimeError) as error:
        err.print(f"[red]error[/red] {escape(told(error))}")
        raise typer.Exit(FAILED) from None
    for path, form in ((junit, ci.as_junit), (as_json, ci.as_json)):
        if path is not None:
            path.write_text(form(candidate, baseline, rows), encoding="utf-8")
    refused = next((row for row in rows if row["decision_reason"] == "incomparable" and row["metric"] == "all"), None)
    if refused is not None:
        err.print(f"[red]error[/red] {candidate} and {baseline} cannot be compared: {escape(str(refused['detail']))}")
        raise typer.Exit(FAILED)
    for row in rows:
        if row["role"] == "declared" or row["slice"] != "all":
            style = {"PASS": "green", "FAIL": "red"}.get(row["decision"], "yellow")
            out.print(f"[{style}]{row['decision']}[/{style}] {escape(ci.line(row))}")
    for name, (was, now) in json.loads(rows[0]["what_changed"]).items():
        out.print(escape(f"changed  {name}: {formats.setting(was)} -> {formats.setting(now)}"))
    out.print(f"{ci.verdict(rows)}: {candidate} against {baseline}")
    for step in ci.next_steps(rows):
        out.print(escape(step))
    if ci.verdict(rows) != "PASS":
        raise typer.Exit(BLOCKED)


@app.command()
def power(
    margin: Annotated[float, typer.Option(help="Margin of non-inferiority, or gain to show, in points: .02.")],
    changed: Annotated[float, typer.Option(help="Share of questions whose verdict differs between candidate and baseline.")] = 0.1,
    difference: Annotated[float, typer.Option(help="True mean difference that is expected.")] = 0.0,
    claims: Annotated[int, typer.Option(min=1, help="Claims of the family.")] = 1,
    confidence: Annotated[float, typer.Option(help="Confidence of intervals.")] = 0.95,
    wanted: Annotated[float, typer.Option("--power", help="Probability with which the margin is to be shown.")] = 0.8,
    rate: Annotated[float, typer.Option(help="Rate whose own interval is also planned.")] = 0.8,
) -> None:
    """How many independent questions a margin needs."""
    from rag_eval_assets.scoring.hypotheses import questions_for_half_width, questions_for_margin

    try:
        paired = questions_for_margin(margin, changed=changed, difference=difference, confidence=confidence, power=wanted, family=claims)
        alone = questions_for_half_width(margin, rate=rate, confidence=confidence)
    except ValueError as error:
        err.print(f"[red]error[/red] {escape(str(error))}")
        raise typer.Exit(BAD_INPUT) from None

    def said(questions: int | None) -> str:
        return "no number of questions is enough" if questions is None else f"{questions:,} questions"

    case = f"a true difference of {difference:g} and {changed:.0%} of the verdicts changed"
    tests = f"{claims} claim{'s' * (claims > 1)}, one-sided at {(1 - confidence) / 2:g}"
    out.print(f"{said(paired)}: show with probability {wanted:g} that a candidate is not worse by {margin:g}, at {case} ({tests})")
    out.print(f"{said(alone)}: the {confidence:.0%} interval of a rate of {rate:g} reaches {margin:g} to either side")
    out.print("Questions that share a gold document count as less than one each.")
    if paired is None:
        out.print(
            "The expected --difference is worse than the margin, or too near to it: a larger --margin or a better candidate is needed."
        )
    else:
        out.print("Fewer are enough for a larger --margin, a smaller share --changed, or fewer --claims. The margin is that of the policy.")


@app.command()
def diagnose(
    context: typer.Context,
    system: Annotated[str, typer.Argument(help="A system of evaluation.yaml, scored by the last sync.")],
    intervention: Annotated[
        str,
        typer.Option(
            help="gold-context, control, larger-top-k, larger-budget, reranker=NAME of the settings, or reranker=module:function."
        ),
    ] = "gold-context",
    as_json: Annotated[bool, typer.Option("--json", help="The rows, as a list.")] = False,
) -> None:
    """Show a system's failed questions under one intervention; a reranker that no sync tried is tried now, without the retriever."""
    from rag_eval_assets.diagnoses import intervene
    from rag_eval_assets.report import addresses

    try:
        rows = intervene(context.obj, system, intervention)
    except RuntimeError as error:
        err.print(f"[red]error[/red] {escape(str(error))}")
        raise typer.Exit(BAD_INPUT) from None
    if as_json:
        typer.echo(json.dumps(rows, indent=1, ensure_ascii=False))
        return
    for row in rows:
        out.print(escape(f"{row['question_id']}  {addresses.told(row)}  {row['result_id']}"))
    verdicts = [row["recovered"] for row in rows if row["recovered"] is not None]
    without = len(rows) - len(verdicts)
    out.print(f"{sum(verdicts)} of {len(verdicts)} failed questions recover{f', {without} without a verdict' if without else ''}.")
    out.print("Observed on these questions: a candidate experiment, no claim about others.")
