"""The training methods that are shipped, a file each."""
