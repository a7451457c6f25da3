"""What shards of one check would each make alike: made by the first of a process, and kept for the others."""

from collections.abc import Callable, Hashable

from torch import Tensor

Tensors = dict[str, Tensor]


class SharedWork:
    """Tensors of one check, as many as there is room for.

    Args:
        most_bytes: Room; what does not fit is made again by whoever needs it.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._check_id: str | None = None
        self._kept: dict[Hashable, Tensors] = {}
        self._bytes = 0

    def get(self, check_id: str, key: Hashable, make: Callable[[], Tensors]) -> Tensors:
        """Return what is kept under a key of a check, or what ``make`` returns; what it raises is let through.

        Args:
            check_id: Whose it is. Another check's is forgotten: its shards come together.
            key: What it is.
            make: Called if it is not kept.
        """
        if check_id != self._check_id:
            self._check_id, self._kept, self._bytes = check_id, {}, 0
        if key in self._kept:
            return self._kept[key]
        made = make()
        size = sum(tensor.nbytes for tensor in made.values())
        if self._bytes + size <= self._most_bytes:
            self._kept[key] = made
            self._bytes += size
        return made
