"""From files to clean, unique, chunked text, and how well that went.

Nothing here knows Dagster, storage or scoring: every function takes plain values and returns plain rows.
"""
