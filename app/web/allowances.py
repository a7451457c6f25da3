"""How often each of many may ask for something: so many a minute, counted by this process."""

import math
import threading
import time
from collections import deque
from collections.abc import Callable

from app.web.problems import TooManyRequestsError

MINUTE_S = 60.0


class Allowance:
    """So many a minute for each project. Every API process counts for itself.

    Args:
        most: How many in any minute.
        clock: Seconds that never go back.
    """

    def __init__(self, most: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._taken: dict[str, deque[float]] = {}
        self._lock = threading.Lock()

    def take(self, project_id: str, what: str) -> None:
        """Count one.

        Args:
            project_id: Whose.
            what: Of what, in the plural, for people.

        Raises:
            TooManyRequestsError: The project has had them all; it says when the next one may come.
        """
        with self._lock:
            now = self._clock()
            for known in list(self._taken):
                # Keeps the projects of all times out of memory.
                while self._taken[known] and self._taken[known][0] <= now - MINUTE_S:
                    self._taken[known].popleft()
                if not self._taken[known]:
                    del self._taken[known]
            taken = self._taken.setdefault(project_id, deque())
            if len(taken) >= self._most:
                wait_s = math.ceil(taken[0] + MINUTE_S - now)
                raise TooManyRequestsError(
                    f"This project has had {self._most} {what} within a minute: ask again in {wait_s} s.",
                    retry_after_s=wait_s,
                )
            taken.append(now)
