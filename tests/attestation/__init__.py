"""Signed verdicts."""
