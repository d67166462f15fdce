"""The release report and the pictures that also go into Dagster metadata.

What belongs here: which rows are shown, how a number is printed, how a picture is drawn, how the page is laid out. What does
not: computing a score, an interval or a decision (`scoring`), and reading or writing tables (`storage`).
"""
