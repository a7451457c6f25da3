"""The torch-free half of ``certified_calibration``: its parameters, and its results in plain sentences."""
