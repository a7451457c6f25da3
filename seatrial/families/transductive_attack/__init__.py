"""The torch-free half of ``transductive_attack``: its parameters, and its results in plain sentences."""
