"""Webhooks: who is told what happened, signed after Standard Webhooks, and every attempt to tell."""
