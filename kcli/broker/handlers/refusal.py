"""The words that go with an error code in a response."""

from __future__ import annotations

from kcli.errors import BrokerError


def reason(error: BrokerError) -> str:
    """The sentence of a BrokerError, without the name of its code."""
    return error.message.partition(": ")[2]
