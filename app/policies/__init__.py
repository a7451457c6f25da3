"""What must hold for a model to ship: policies with their versions, shipped ones, and baselines."""
