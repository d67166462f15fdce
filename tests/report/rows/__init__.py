"""Hand-made rows in exactly the schema of the tables, by part of the graph."""
