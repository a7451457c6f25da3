"""Chained work: a hardening, an audit, its verdict, its attestation and a message, submitted at once."""
