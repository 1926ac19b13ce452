"""Test hooks: observe, answer, drop or delay requests of an API before their handler runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from kcli.broker.serving.request_context import RequestContext
from kcli.protocol.registry import ApiKey, api_name
from kcli.protocol.wire import Message, Request
from kcli.visible import visible


class Action(Enum):
    """An action on a request other than an answer."""

    DROP = "close the connection"
    SILENCE = "never answer, and process no later request of that connection"


DROP, SILENCE = Action.DROP, Action.SILENCE


class Delay(NamedTuple):
    """Handle the request after `ms` milliseconds of the broker's clock."""

    ms: float


class SeenRequest(NamedTuple):
    """A received request: Kafka's name of the API, its version, and the client."""

    api: str
    version: int
    client_id: str | None
    connection: str


class RefusedConnection(NamedTuple):
    """A connection that the broker has refused: the client's address, the name of the listener, and the reason."""

    peer: str
    listener: str
    reason: str

    def __str__(self) -> str:
        return visible(f"connection from {self.peer} refused: {self.reason}")


Verdict = Message | Action | Delay | None
Hook = Callable[[Any, RequestContext], Verdict]


class _Interception:
    def __init__(self, hook: Hook, times: int | None) -> None:
        self.hook = hook
        self.remaining = times


class Control:
    """The latest `requests` and `refusals`, oldest first, and the hooks.

    Used by the loop thread, or before that thread starts.
    """

    def __init__(self, keep_requests: int = 1000) -> None:
        self.requests: deque[SeenRequest] = deque(maxlen=keep_requests)
        self.refusals: deque[RefusedConnection] = deque(maxlen=keep_requests)
        self._interceptions: dict[int, list[_Interception]] = {}

    def __repr__(self) -> str:
        hooks = {api_name(key): len(hooks) for key, hooks in self._interceptions.items()}
        return f"<Control {len(self.requests)} requests seen, intercepts {hooks or 'nothing'}>"

    def on(self, api: int | str, hook: Hook, times: int | None = None) -> None:
        """Call `hook(request, context)` for requests of an API, its key or name ("Produce"), at most `times` times.

        The hook returns None to let the request pass, a response to send instead of the handler's, or DROP, SILENCE or
        Delay. If an API has several hooks, the first result other than None applies. ValueError for an unknown API.
        """
        self._interceptions.setdefault(api_key(api), []).append(_Interception(hook, times))

    def off(self, api: int | str | None = None) -> None:
        """Remove the hooks of an API, or all hooks."""
        if api is None:
            self._interceptions.clear()
        else:
            self._interceptions.pop(api_key(api), None)

    def decide(self, request: Request[Any], context: RequestContext) -> Verdict:
        """Record a request and return the hooks' verdict; None lets it pass."""
        self.record(context)
        hooks = self._interceptions.get(context.api_key)
        return _first_verdict(hooks, request, context) if hooks else None

    def refuse(self, peer: str, listener: str, reason: str) -> None:
        """Record a connection that is refused."""
        self.refusals.append(RefusedConnection(peer, listener, reason))

    def record(self, context: RequestContext) -> None:
        """Record a request that no hook has to see."""
        name = api_name(context.api_key)
        self.requests.append(SeenRequest(name, context.api_version, context.client_id, context.connection_id))

    @property
    def has_hooks(self) -> bool:
        return bool(self._interceptions)


def _first_verdict(interceptions: list[_Interception], request: Request[Any], context: RequestContext) -> Verdict:
    for interception in list(interceptions):
        if interception.remaining is not None:
            interception.remaining -= 1
            if interception.remaining <= 0:
                interceptions.remove(interception)
        verdict = interception.hook(request, context)
        if verdict is not None:
            return verdict
    return None


def api_key(api: int | str) -> int:
    """Return the key of an API given by key or by Kafka's name in any case. ValueError for an unknown name."""
    if isinstance(api, int):
        return int(api)
    name = api.replace("_", "").lower()
    for key in ApiKey:
        if api_name(key).lower() == name:
            return int(key)
    raise ValueError(f"{api!r} is not the name of an API that kcli supports")
