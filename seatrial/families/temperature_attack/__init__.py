"""The torch-free half of ``temperature_attack``: its parameters, and its results in plain sentences."""
