"""One function over one uploaded file, in a child of its own."""

import os
import pickle
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seatrial.ingest.inspection import errors
from seatrial.ingest.inspection.errors import InspectionError, MalformedFileError, UploadTooLargeError
from seatrial.sandbox.channel import Channel, ChannelClosedError
from seatrial.sandbox.confinement import confine
from seatrial.sandbox.launcher import Child, ChildDiedError, DeadlineError, Zygote
from seatrial.sandbox.zygote import named
from seatrial.store.settings import MIB, Settings

ENTRY = "seatrial.sandbox.calls:serve"
MAX_ANSWER_BYTES = 64 * MIB
ONE_MORE_SECOND_BYTES = 10_000_000


class InspectionFailedError(RuntimeError):
    """A mistake of ours in the child; its log says more."""


class Call:
    """A call that can be ended from another thread.

    Args:
        zygote: Forks the child.
        function: ``module:function``; it returns what JSON can carry and raises ``InspectionError`` for a refusal.
        arguments: What it is called with; the settings come last.
        settings: Limits of memory and time, and what the child may know of the others.
        size_bytes: Size of the file it is about.
    """

    def __init__(
        self, zygote: Zygote, function: str, arguments: Sequence[Any], settings: Settings, *, size_bytes: int
    ) -> None:
        self._zygote = zygote
        self._function, self._arguments = function, list(arguments)
        self._settings = settings
        self._seconds = settings.inspection_deadline_s + size_bytes / ONE_MORE_SECOND_BYTES
        self._child: Child | None = None
        self._is_ended = False

    def __call__(self) -> Any:
        """Return what the function returns.

        Raises:
            InspectionError: The function refused the file, or reading it took more time or memory than there is.
            ChildDiedError: :meth:`end` was called, or the kernel took the memory back.
            InspectionFailedError: The function made a mistake.
        """
        self._child = child = self._zygote.fork(ENTRY, max_payload_bytes=MAX_ANSWER_BYTES)
        try:
            if self._is_ended:
                child.kill()
            child.limit_memory(self._settings.inspection_memory_bytes)
            order = pickle.dumps((self._arguments, self._settings.for_child()))
            child.channel.send({"function": self._function}, order)
            end = time.monotonic() + self._seconds
            told = child.receive(deadline=lambda: end).header
        except DeadlineError as error:
            raise UploadTooLargeError(
                f"The file takes more than the {self._seconds:.0f} seconds its inspection is given "
                "(SEATRIAL_INSPECTION_DEADLINE_S): send less of it, or in a simpler form"
            ) from error
        except ChildDiedError as error:
            if error.status is None or error.status == -9:
                raise
            raise MalformedFileError(
                f"A library that reads such files crashed on it ({error}): it is damaged, or asks for more memory than "
                "there is"
            ) from error
        except ChannelClosedError as error:
            raise ChildDiedError(child.close()) from error
        finally:
            child.close()
        return self._outcome(told)

    def end(self) -> None:
        """End the call; whoever waits for it learns that the child died."""
        self._is_ended = True
        if self._child is not None:
            self._child.kill()

    def _outcome(self, told: dict[str, Any]) -> Any:
        if "done" in told:
            return told["done"]
        if "memory" in told:
            raise UploadTooLargeError(
                f"The file takes more than the {self._settings.inspection_memory_bytes // MIB:,} MiB its inspection is "
                "given (SEATRIAL_INSPECTION_MEMORY_BYTES): send less of it, or in a simpler form"
            )
        if "refused" in told:
            raise _as_refused(told["refused"], told["detail"], told["field"])
        raise InspectionFailedError(told["failed"])


def _as_refused(name: str, detail: str, field: str) -> InspectionError:
    kind: type[InspectionError] = getattr(errors, name, InspectionError)
    return kind(detail, field=field)


def serve(channel: Channel) -> None:
    """Answer the one call there is."""
    message = channel.receive()
    # Inspection is nobody's first concern while requests are waited for.
    os.nice(5)
    channel.send(_answer(message.header["function"], message.payload))


def _answer(function: str, order: bytes) -> dict[str, Any]:
    try:
        arguments, values = pickle.loads(order)  # noqa: S301 - from our own parent
        settings, called = Settings.model_validate(values), named(function)
        if settings.confine:
            confine([argument for argument in arguments if isinstance(argument, Path)])
        return {"done": called(*arguments, settings)}
    except InspectionError as error:
        return {"refused": type(error).__name__, "detail": error.detail, "field": error.field}
    except MemoryError as error:
        return {"memory": str(error)}
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        # A library's panic is no Exception.
        traceback.print_exc()
        return {"failed": f"{type(error).__name__}: {error}"[:2000]}
