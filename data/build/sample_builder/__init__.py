"""Renders the authored documents in `content/` into the formats of a real knowledge base.

What belongs here: the markup of the authored text, one renderer a format, and the checks on questions and labels. What does
not: any text that a reader of the corpus sees; that is all in `content/`.
"""
