"""A limit on the memory of this process while it reads untrusted files."""

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def memory_limited(more_bytes: int) -> Iterator[None]:
    """Let the process take so many bytes of address space more than it has; what asks for more raises MemoryError.

    Start no process inside the block: it would inherit the limit. Only Linux tells a process what it has; elsewhere
    there is no limit.
    """
    if sys.platform != "linux":
        yield
        return
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before, most = resource.getrlimit(resource.RLIMIT_AS)
    wanted = pages * resource.getpagesize() + more_bytes
    limits = [one for one in (wanted, before, most) if one != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min(limits), most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, most))
