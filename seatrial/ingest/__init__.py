"""Files that people hand in: read and inspected without running anything that is in them."""
