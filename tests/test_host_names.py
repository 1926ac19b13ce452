"""Addresses of host names, and names that DNS cannot have."""

from __future__ import annotations

import socket

import pytest

from kcli.host_names import connect, resolve


def test_addresses_are_resolved_once_each() -> None:
    assert (int(socket.AF_INET), ("127.0.0.1", 9)) in resolve("127.0.0.1", 9)
    assert resolve("", 0, to_bind=True)
    found = resolve("localhost", 9)
    assert len(found) == len(set(found))


@pytest.mark.parametrize("name", ["x" * 64, "a..b", f"\u00e4{'x' * 64}.example"])
def test_a_name_that_dns_cannot_have_is_not_known(name: str) -> None:
    with pytest.raises(socket.gaierror, match="Name or service not known"):
        resolve(name, 9)
    with pytest.raises(socket.gaierror, match="Name or service not known"):
        connect(name, 9, 1.0)
