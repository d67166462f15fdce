"""Models and content-addressed stores: everything that is loaded or opened once and used by many computations.

What belongs here: how a model or store is found, checked, opened and bounded. What does not: what is computed with it, which is
the pure packages' work.
"""
