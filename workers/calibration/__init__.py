"""Scalings of logits, fitted with torch."""
