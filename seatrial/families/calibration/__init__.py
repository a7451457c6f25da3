"""Is the confidence in a table of predictions worth anything? Without a model and without an attack."""
