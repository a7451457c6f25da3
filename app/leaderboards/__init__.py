"""Models audited alike, side by side and in order."""
