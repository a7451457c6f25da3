"""The perturber alone: noise to look at, or to train on, without a model."""
