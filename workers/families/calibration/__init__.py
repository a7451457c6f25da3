"""Measures a table of predictions: nothing is attacked and nothing is run."""
