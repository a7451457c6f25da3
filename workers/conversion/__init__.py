"""From what training leaves behind to a model that is accepted; on its owner's machine, and without a service."""
