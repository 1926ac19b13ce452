"""Run a client's and a server's side of a SASL exchange against each other."""

from __future__ import annotations

from kcli.security.jaas import JaasEntry, format_jaas, parse_jaas
from kcli.security.sasl.exchange import ClientExchange, Identity, ServerExchange


def login(**options: str) -> JaasEntry:
    """Return a login module with these options."""
    return parse_jaas(format_jaas("Module", options).reveal())


def run_exchange(client: ClientExchange, server: ServerExchange) -> tuple[Identity, list[bytes]]:
    """Return the identity that the server found, and all messages. Both sides must come to their end."""
    assert next(server) == b""
    messages = [next(client)]
    while True:
        try:
            messages.append(server.send(messages[-1]))
        except StopIteration as end:
            identity: Identity = end.value
            messages.append(identity.final)
            break
        messages.append(client.send(messages[-1]))
    try:
        client.send(identity.final)
    except StopIteration:
        return identity, messages
    raise AssertionError("the client sends more after the server's end")
