"""Finding chunks: BM25, dense search, fusion, predicates, approximate indexes, and the rankings table made of them.

What belongs here: from questions, chunks and vectors to ranked hits. What does not: scores of a ranking (`scoring`), models and
stores (`resources`), Dagster, settings and files.
"""
