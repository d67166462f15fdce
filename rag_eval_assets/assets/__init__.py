"""The assets: thin bodies that read inputs, make one pure call and return its rows.

What belongs here: what an asset reads, which settings, code and libraries shape it. What does not: how rows are computed.
"""

from rag_eval_assets.assets import chunks, corpus, generation, golden, index, release, retrieval

__all__ = ["chunks", "corpus", "generation", "golden", "index", "release", "retrieval"]
