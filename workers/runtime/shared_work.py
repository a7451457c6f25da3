"""What shards of a check, or checks of an audit, would each make alike: made once in a process, and kept for others."""

from collections.abc import Callable, Hashable

from torch import Tensor

Tensors = dict[str, Tensor]


class SharedWork:
    """Tensors of one owner, a check or an audit, as many as there is room for.

    Args:
        most_bytes: Room; what does not fit is made again by whoever needs it.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._owner: str | None = None
        self._kept: dict[Hashable, Tensors] = {}
        self._bytes = 0

    def get(self, owner: str, key: Hashable, make: Callable[[], Tensors]) -> Tensors:
        """Return what is kept under a key of an owner, or what ``make`` returns; what it raises is let through.

        Args:
            owner: Whose it is. Another's is forgotten: what belongs together is run together.
            key: What it is.
            make: Called if it is not kept.
        """
        if owner != self._owner:
            self._owner, self._kept, self._bytes = owner, {}, 0
        if key in self._kept:
            return self._kept[key]
        made = make()
        size = sum(tensor.nbytes for tensor in made.values())
        if self._bytes + size <= self._most_bytes:
            self._kept[key] = made
            self._bytes += size
        return made
