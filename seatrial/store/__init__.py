"""Settings, the database with its state machine, and artifacts: what the service and its workers share."""
