"""Reports: what an audit found, composed from stored rows for a person (HTML) or a program (JSON)."""
