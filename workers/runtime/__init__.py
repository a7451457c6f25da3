"""Running shards: claims, heartbeats, cancellation, seeds, devices, records. Knows the tables, not the broker.

The same code serves the embedded worker (:mod:`workers.local`) and the Celery one (:mod:`workers.tasks`): a worker is
told, or finds, that there may be work, and drains what it can claim from the database.
"""
