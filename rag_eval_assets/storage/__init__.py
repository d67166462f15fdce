"""Where tables live: Parquet files with footers, versions, what is stale, and the sync that mends it.

What belongs here: everything between a computed table and a durable, explained file. What does not: how rows are computed.
"""
