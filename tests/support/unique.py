"""Names and ports that nothing else on this machine has or gets, for servers and for what tests declare there.

Ports come from blocks below those that systems give to outgoing connections and to whoever asks for any port. A process
owns a block as long as it holds the block's first port: no other process that asks here is given a port of it, also
between the moment at which a port is chosen and that at which a server listens there.

``python tests/support/unique.py COUNT`` prints ports; 10,000 above the first one is free, too, as RabbitMQ has its
management there. Nothing but Python is needed.
"""

from __future__ import annotations

import atexit
import os
import socket
import sys
from typing import Final
from uuid import uuid4

HOST: Final = "127.0.0.1"
FIRST: Final = 10_240
LAST: Final = 22_528
"""Ports are in between: Linux gives outgoing connections those from 32,768, and 10,000 above are left to pairs."""
BLOCK: Final = 128
"""Number of ports of a block; the first one is its lock."""


class Block:
    """The block of ports of this process."""

    def __init__(self) -> None:
        self._owner: socket.socket | None = None
        self._first = self._next = 0

    def take(self, above: int = 0) -> int:
        """Return a port of the block that is free, and, if `above` is given, that is free there, too."""
        if self._owner is None:
            self._owner, self._first = _own_block()
        for _ in range(BLOCK):
            self._next = self._next % (BLOCK - 1) + 1
            port = self._first + self._next
            if all(_is_free(port + distance) for distance in {0, above}):
                return port
        raise RuntimeError(f"none of the {BLOCK} ports from {self._first} is free")

    def forget(self) -> None:
        """Leave the block to the process that this one was forked from."""
        if self._owner is not None:
            self._owner.close()
        self._owner = None


_block: Final = Block()
atexit.register(_block.forget)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_block.forget)


def free_port(above: int = 0) -> int:
    """Return a port of 127.0.0.1 that nothing listens at, and that no other test of this machine is given."""
    return _block.take(above)


def free_ports(count: int) -> list[int]:
    """Return different ports that nothing listens at."""
    return [free_port() for _ in range(count)]


def unique_name(kind: str) -> str:
    """Return a name for a container, topic, queue, exchange, group, user or virtual host, which no other one has."""
    return f"hashstar-{kind}-{uuid4().hex[:12]}"


def _own_block() -> tuple[socket.socket, int]:
    """Return the socket that holds the first port of a block, and this port."""
    count = (LAST - FIRST) // BLOCK
    for number in range(count):
        first = FIRST + (os.getpid() + number) % count * BLOCK
        owner = socket.socket()
        try:
            owner.bind((HOST, first))
        except OSError:
            owner.close()
        else:
            return owner, first
    raise RuntimeError(f"all {count} blocks of ports from {FIRST} are taken")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


if __name__ == "__main__":
    print(free_port(10_000), *free_ports(int(sys.argv[1]) - 1))
