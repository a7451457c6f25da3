"""Models: weights and what they mean, inspected before they are stored and checked by a worker after."""
