"""What rooms and workers share: settings, database, storage, state transitions, the queue. No web framework."""
