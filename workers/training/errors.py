"""What goes wrong in a run and is for the person who asked for it to mend."""

from workers.errors import WorkError


class DivergedError(WorkError):
    """Loss or logits are no longer finite."""

    def __init__(self, where: str) -> None:
        super().__init__(
            "training-diverged",
            "Training has diverged",
            f"{where} is not finite: use a lower learning_rate",
            field="/params/learning_rate",
        )
