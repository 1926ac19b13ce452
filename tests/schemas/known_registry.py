"""A registry with given answers, without a server: the client's own code with its requests replaced."""

from __future__ import annotations

import json
from typing import Any

from kcli.clock import Clock
from kcli.errors import NotFound
from kcli.schemas.registry_client import RegistrySettings, SchemaRegistry

URL = "https://registry.example:8081"


class KnownRegistry(SchemaRegistry):
    """`answers` are JSON values by path. `asked` has the path of each request."""

    def __init__(
        self, answers: dict[str, Any], *, folder: str | None = None, url: str = URL, clock: Clock | None = None
    ) -> None:
        super().__init__(RegistrySettings.from_properties({"schema.registry.url": url}), folder=folder, clock=clock)
        self.answers = answers
        self.asked: list[str] = []

    def _request(self, method: str, path: str, body: bytes | None) -> bytes:
        self.asked.append(path)
        answer = self.answers.get(path, self.answers.get(path.partition("?")[0]))
        if answer is None:
            raise NotFound(f"{path} is not known")
        return json.dumps(answer).encode()

    def _apicurio(self, path: str) -> str:
        answer = self._request("GET", f"apicurio:{path}", None)
        return json.loads(answer) if answer.startswith(b'"') else answer.decode()


def by_id(**schemas: Any) -> KnownRegistry:
    """Return a registry of Avro schemas: `by_id(id1=..., id2=...)`."""
    return KnownRegistry(
        {f"/schemas/ids/{name.removeprefix('id')}": {"schema": json.dumps(it)} for name, it in schemas.items()}
    )
