"""Test hooks: requests are seen by API before their handler sees them, and answered, dropped or delayed on demand."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from kcli.broker.request_context import RequestContext
from kcli.protocol.registry import ApiKey, api_name
from kcli.protocol.wire import Message, Request


class Action(Enum):
    """What may be done with a request besides answering it."""

    DROP = "close the connection"
    SILENCE = "never answer, and answer nothing behind it on that connection"


DROP, SILENCE = Action.DROP, Action.SILENCE


class Delay(NamedTuple):
    """Handle the request only after so many milliseconds of the broker's clock."""

    ms: float


class SeenRequest(NamedTuple):
    """A request that came: Kafka's name of the API, and who asked."""

    api: str
    version: int
    client_id: str | None
    connection: str


Verdict = Message | Action | Delay | None
Hook = Callable[[Any, RequestContext], Verdict]


class _Interception:
    def __init__(self, ask: Hook, times: int | None) -> None:
        self.ask = ask
        self.left = times


class Control:
    """`requests` are the latest, oldest first. All of it belongs to the thread of the loop, or is used before it."""

    def __init__(self, keep_requests: int = 1000) -> None:
        self.requests: deque[SeenRequest] = deque(maxlen=keep_requests)
        self._interceptions: dict[int, list[_Interception]] = {}

    def __repr__(self) -> str:
        hooks = {api_name(key): len(found) for key, found in self._interceptions.items()}
        return f"<Control {len(self.requests)} requests seen, intercepts {hooks or 'nothing'}>"

    def on(self, api: int | str, ask: Hook, times: int | None = None) -> None:
        """Ask `ask(request, context)` about requests of an API, its key or its name ("Produce"); `times`: so often.

        None lets a request pass (to observe it), a response is sent instead of the handler's, and then there are DROP,
        SILENCE and Delay. Where several are asked, the first that decides is heeded. ValueError for an unknown API.
        """
        self._interceptions.setdefault(api_key(api), []).append(_Interception(ask, times))

    def off(self, api: int | str | None = None) -> None:
        """Forget the hooks of an API, or all."""
        if api is None:
            self._interceptions.clear()
        else:
            self._interceptions.pop(api_key(api), None)

    def decide(self, request: Request[Any], context: RequestContext) -> Verdict:
        """Note a request, and what the hooks say about it; None: it passes."""
        name = api_name(context.api_key)
        self.requests.append(SeenRequest(name, context.api_version, context.client_id, context.connection_id))
        hooks = self._interceptions.get(context.api_key)
        return self._ask(hooks, request, context) if hooks else None

    def _ask(self, hooks: list[_Interception], request: Request[Any], context: RequestContext) -> Verdict:
        for hook in list(hooks):
            if hook.left is not None:
                hook.left -= 1
                if hook.left <= 0:
                    hooks.remove(hook)
            verdict = hook.ask(request, context)
            if verdict is not None:
                return verdict
        return None


def api_key(api: int | str) -> int:
    """The key of an API given by its key or by Kafka's name in any case. ValueError if there is none."""
    if isinstance(api, int):
        return int(api)
    wanted = api.replace("_", "").lower()
    for key in ApiKey:
        if api_name(key).lower() == wanted:
            return int(key)
    raise ValueError(f"no API that kcli speaks is called {api!r}")
