"""The torch-free half of ``uncertainty_span``: its parameters, and its results in plain sentences."""
