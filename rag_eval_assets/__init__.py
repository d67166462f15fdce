"""Offline evaluation of retrieval-augmented generation as Dagster assets.

Orchestration, storage, retrieval, generation, scoring and the report live here; reading and cutting files lives in `ingestion`.
"""
