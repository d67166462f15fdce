"""What chunks, rankings, contexts and answers are worth, with intervals, paired tests, gates and diagnoses.

What belongs here: pure functions from tables to measures. What does not: Dagster, settings, storage, and anything that makes what
is scored.
"""
