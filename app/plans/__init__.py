"""Chained work: an audit, its verdict, its attestation and a message, submitted at once."""
