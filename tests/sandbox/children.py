"""What children do in the tests of them."""

import os
import sys
import time

from seatrial.sandbox.channel import Channel

PREPARED: list[str] = []


def prepare(word: str) -> None:
    PREPARED.append(word)


def answer(channel: Channel) -> None:
    """Answer what is asked until nobody asks."""
    while True:
        message = channel.receive()
        question = message.header["ask"]
        if question == "environment":
            channel.send({"environment": dict(os.environ), "prepared": PREPARED, "pid": os.getpid()})
        elif question == "descriptors":
            channel.send({"open": [os.readlink(f"/proc/self/fd/{name}") for name in _descriptors()]})
        elif question == "allocate":
            try:
                block = bytearray(message.header["bytes"])
            except MemoryError:
                channel.send({"refused": True})
            else:
                channel.send({"allocated": len(block)})
        elif question == "grow":
            grown = []
            while True:
                grown.append(bytearray(b"x" * 2**20))
                time.sleep(0.001)
        elif question == "crash":
            os.abort()
        elif question == "sleep":
            time.sleep(60)
        elif question == "echo":
            channel.send({"echo": True}, message.payload)
        elif question == "huge":
            channel.send({"huge": True}, b"x" * message.header["bytes"])
        elif question == "exit":
            sys.exit(3)


def _descriptors() -> list[str]:
    return [name for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")]
