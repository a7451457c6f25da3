"""Deleting what is no longer wanted, and what stays of it."""
