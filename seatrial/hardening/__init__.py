"""Hardening: the torch-free half of the training methods, their parameters and what they cost."""
