"""Labelled texts as CSV, JSON Lines, Parquet and CoNLL-U, read in the same way by the API and by the workers.

A reader of a format gives rows, a few at a time; :func:`seatrial.ingest.texts.examples.read_examples` turns the rows
of any of them into examples and refuses the first that is none.
"""
