"""Systems under test: the ranking they work from, the context they deliver, the answer they give.

What belongs here: pure functions over rows, one question's work depending on that question's inputs alone. What does not: Dagster,
settings, files, scores.
"""
