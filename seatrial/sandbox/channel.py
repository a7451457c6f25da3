"""Messages between a process and its child, over a socket: a JSON object and, beside it, bytes."""

import json
import socket
import struct
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MAX_HEADER_BYTES = 16 * 2**20
_LENGTHS = struct.Struct("!IQ")


class ChannelClosedError(ConnectionError):
    """The other end is gone, or does not speak this protocol."""


class ChannelEndedError(ChannelClosedError):
    """The other end is gone."""


@dataclass(frozen=True)
class Message:
    """One message.

    Attributes:
        header: A JSON object.
        payload: Bytes beside it; the receiver decides what they may be.
    """

    header: dict[str, Any]
    payload: bytes = b""


class Channel:
    """One end of a connected stream socket. Any thread may send; one at a time may receive."""

    def __init__(self, connection: socket.socket, *, max_payload_bytes: int = 2**33) -> None:
        self._connection = connection
        self._max_payload_bytes = max_payload_bytes
        self._sending = threading.Lock()

    def fileno(self) -> int:
        """Return the socket's descriptor, for selectors."""
        return self._connection.fileno()

    def send(self, header: Mapping[str, Any], payload: bytes = b"") -> None:
        """Send one message whole.

        Raises:
            ChannelClosedError: The other end is gone.
        """
        encoded = json.dumps(header, separators=(",", ":")).encode()
        try:
            with self._sending:
                self._connection.sendall(_LENGTHS.pack(len(encoded), len(payload)) + encoded)
                if payload:
                    self._connection.sendall(payload)
        except OSError as error:
            raise ChannelClosedError(str(error)) from error

    def receive(self) -> Message:
        """Return the next message.

        Raises:
            ChannelClosedError: The other end is gone, or what came is no message.
        """
        header_bytes, payload_bytes = _LENGTHS.unpack(self._read(_LENGTHS.size))
        if header_bytes > MAX_HEADER_BYTES or payload_bytes > self._max_payload_bytes:
            raise ChannelClosedError(f"a message of {header_bytes:,} + {payload_bytes:,} bytes is too large")
        try:
            header = json.loads(self._read(header_bytes))
        except (ValueError, RecursionError) as error:
            raise ChannelClosedError(f"not a message: {error}") from error
        if not isinstance(header, dict):
            raise ChannelClosedError("not a message: its header is no object")
        return Message(header, self._read(payload_bytes))

    def close(self) -> None:
        """Close this end."""
        self._connection.close()

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                part = self._connection.recv(min(size - len(data), 2**20))
            except OSError as error:
                raise ChannelClosedError(str(error)) from error
            if not part:
                raise ChannelEndedError("the other end is gone")
            data += part
        return bytes(data)
