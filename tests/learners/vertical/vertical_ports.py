"""Ports for servers that are started again on the same one."""

from __future__ import annotations

import contextlib
import random
import socket


def free_port() -> int:
    """A free port below the range from which the system takes its own, so that nobody takes it between two starts."""
    while True:
        port = random.SystemRandom().randrange(15_000, 30_000)
        with contextlib.closing(socket.socket()) as probe, contextlib.suppress(OSError):
            probe.bind(("localhost", port))
            return port
