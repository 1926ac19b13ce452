"""Addresses of host names, and connections to them. Ground: imports nothing of kcli.

A name that DNS cannot have, because a label is empty or has more than 63 characters, is an unknown name: Python raises
a UnicodeError, and these functions an OSError.
"""

from __future__ import annotations

import socket
from typing import Any


def resolve(host: str, port: int, *, to_bind: bool = False) -> list[tuple[int, Any]]:
    """Return family and address of a host name in the system's order of preference. Raise OSError. This may block.

    `to_bind`: the addresses to listen on; those of an empty name are all interfaces.
    """
    # As bytes, because for a string Python imports its tables of international names, which takes ten milliseconds.
    name = (host.encode() if host.isascii() else host) or None
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE if to_bind else 0)
    except UnicodeError:
        raise _unknown() from None
    return list(dict.fromkeys((int(family), address) for family, _, _, _, address in found))


def connect(host: str, port: int, timeout_s: float) -> socket.socket:
    """Return a connection to the first address of a host name that accepts it. Raise OSError."""
    try:
        return socket.create_connection((host, port), timeout_s)
    except UnicodeError:
        raise _unknown() from None


def _unknown() -> OSError:
    return socket.gaierror(socket.EAI_NONAME, "Name or service not known")
