"""Programs of ``torch.export``, read as data: no pickle, no sympy, no torch."""
