"""The address of a client as text, in one notation. Pure but for the numbers of network interfaces."""

from __future__ import annotations

import socket
import struct

_MAPPED_PREFIX = bytes(10) + b"\xff\xff"


def canonical_address(text: str) -> str:
    """Return an IP address in its shortest notation; another text unchanged, such as `*` or a host name.

    Java writes `0:0:0:0:0:0:0:1` where the operating system writes `::1`. An IPv4 address within an IPv6 one, which a
    socket for both has, becomes IPv4. A scope is the number of its interface: `fe80::1%eth0` becomes `fe80::1%2`.
    """
    if ":" not in text:
        return text
    address, _, scope = text.partition("%")
    try:
        packed = socket.inet_pton(socket.AF_INET6, address)
    except (OSError, ValueError):
        return text
    if packed.startswith(_MAPPED_PREFIX):
        return socket.inet_ntop(socket.AF_INET, packed[len(_MAPPED_PREFIX) :])
    shortest = socket.inet_ntop(socket.AF_INET6, packed)
    return f"{shortest}%{_interface_number(scope)}" if scope else shortest


def host_of_member(address: str) -> str:
    """Return an address of `canonical_address` as Kafka describes the host of a member: Java's `InetAddress.toString`.

    It begins with a slash, because there is no host name, and all eight groups of an IPv6 address are written.
    """
    address, percent, scope = address.partition("%")
    if ":" in address:
        groups = struct.unpack(">8H", socket.inet_pton(socket.AF_INET6, address))
        address = ":".join(f"{group:x}" for group in groups)
    return f"/{address}{percent}{scope}"


def _interface_number(scope: str) -> str:
    try:
        return str(socket.if_nametoindex(scope))
    except (OSError, ValueError):  # a number, or an interface of another host
        return scope
