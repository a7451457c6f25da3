"""Audit families: one room each. They know neither Celery nor SQL nor each other."""
