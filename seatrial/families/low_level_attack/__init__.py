"""The torch-free half of ``low_level_attack``: its parameters, and its results in plain sentences."""
