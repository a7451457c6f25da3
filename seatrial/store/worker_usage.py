"""What a worker uses of its machine, as it stores it with each sign of life."""

from pydantic import BaseModel


class GpuUsage(BaseModel):
    """Of the GPU that a worker computes on, by whoever uses it.

    Attributes:
        name: Its type.
        memory_used_bytes: Memory in use.
        memory_total_bytes: Memory there is.
        utilisation: Share of the last moments in which something computed, from 0 to 1.
    """

    name: str
    memory_used_bytes: int
    memory_total_bytes: int
    utilisation: float


class WorkerUsage(BaseModel):
    """Of one worker and the processes it runs models in.

    Attributes:
        name: Host and process, for people.
        memory_bytes: Resident memory of the worker itself.
        models_memory_bytes: Resident memory of its child processes; what several share is counted for each.
        cpu_s: Seconds of processors that all of them have used, those that have ended included.
        processes: How many there are.
        disk_free_bytes: Free bytes where it keeps its files; None where the disk does not answer.
        gpu: None where it computes on none, or none can be asked.
    """

    name: str
    memory_bytes: int
    models_memory_bytes: int
    cpu_s: float
    processes: int
    disk_free_bytes: int | None = None
    gpu: GpuUsage | None = None
