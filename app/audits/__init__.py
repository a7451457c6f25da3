"""Audits: submitting them, following them, reading what came out."""
