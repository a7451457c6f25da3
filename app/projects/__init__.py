"""Projects: how they share the workers, what they may use and use, how long they keep things, who did what."""
