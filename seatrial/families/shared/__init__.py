"""What several families offer alike: shared parameters, their cost, and how their results are told."""
