"""Client of a schema registry: the REST interface of Confluent's, which Apicurio, Karapace and Redpanda have, too.

A schema with an id never changes, so each is fetched once: it stays in memory, and in a folder on disk. All answers are
bounded in time and size, redirects are not followed, and references between schemas are followed without cycles.

**Non-obvious**

- Several URLs are those of one registry. A request goes to the URL that answered last, and to the next after a failure
  that another node may not have: no connection, or a status of 429 or above 499.
- A schema may be registered while its topic is followed, so an unknown id is asked for again after 30 seconds.
- Apicurio's own serialisers write ids of eight bytes, which its own interface resolves beside the compatible one.
- Apicurio answers NONE for the rule of a subject that has none, and applies the rule of all subjects to it.

Source: https://docs.confluent.io/platform/current/schema-registry/develop/api.html.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from kcli.clock import SystemClock
from kcli.errors import ConfigError, KcliError, NotFound
from kcli.schemas.disk_cache import DiskCache, Key
from kcli.schemas.schema import (
    Reference,
    RegistryError,
    Schema,
    body_of,
    junk,
    kind_of,
    objects_of,
    parse_json,
    schema_of,
    text_of,
    texts_of,
    whole_of,
)
from kcli.secret import Secret
from kcli.security.registry_settings import OF_SERIALISERS, URL, RegistrySettings

if TYPE_CHECKING:
    from ssl import SSLContext
    from urllib.parse import SplitResult

    from kcli.clock import Clock
    from kcli.settings import Value

__all__ = ["Reference", "RegistryError", "RegistrySettings", "Schema", "SchemaRegistry"]

_APICURIO = "/apis/ccompat/"
_MAX_ANSWER_BYTES = 16 << 20
_MAX_REFERENCES = 1000
_MAX_UNKNOWN_IDS = 1000
_UNKNOWN_MS = 30_000.0
_MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"


class SchemaRegistry:
    """The schemas, subjects and compatibility rules of one registry.

    All methods raise RegistryError, and NotFound if the id, subject or version does not exist.
    """

    def __init__(
        self,
        settings: RegistrySettings,
        *,
        folder: str | None = None,
        timeout_ms: float = 30_000.0,
        use_id: str = "",
        clock: Clock | None = None,
    ) -> None:
        """`folder` has the schemas on disk; None keeps none. `timeout_ms` limits one request.

        `use_id` is that of Apicurio's serialisers for ids of eight bytes: globalId or contentId; by default that of
        the registry's version. Raise ConfigError without a URL.
        """
        if not settings.urls:
            raise ConfigError("schema.registry.url is not set; use --schema-registry URL")
        self._settings = settings
        self._urls = list(settings.urls)
        self._timeout_ms = timeout_ms
        self._use_id = use_id
        self._disk = DiskCache(folder, self._urls[0])
        self._of_disk: set[Key] = set()
        self._schemas: dict[Key, Schema] = {}
        self._versions: dict[tuple[str, int], Schema] = {}
        self._clock = clock or SystemClock()
        self._unknown: set[Key] = set()
        self._unknown_until_ms = 0.0
        self._closures: dict[Schema, list[tuple[str, Schema]]] = {}

    @classmethod
    def of_properties(
        cls, properties: Mapping[str, Any], *, folder: str | None = None, timeout_ms: float = 30_000.0
    ) -> SchemaRegistry | None:
        """Return the registry that a client's properties name; None without `schema.registry.url`. Raise ConfigError.

        `folder` has the schemas on disk: see `kcli.schemas.disk_cache`.
        """
        settings = RegistrySettings.from_properties(properties)
        use_id = str(properties.get("apicurio.registry.use-id") or "")
        return cls(settings, folder=folder, timeout_ms=timeout_ms, use_id=use_id) if settings.urls else None

    @classmethod
    def connect(cls, url: str, *, timeout_ms: float = 30_000.0, **settings: Value | None) -> SchemaRegistry:
        """Return the registry at a URL, or at several separated by commas. Nothing is sent yet.

        `settings` are the properties of Confluent's clients with underscores: `basic_auth_user_info="user:password"`,
        `bearer_auth_token`, `schema_registry_ssl_truststore_location`. `timeout_ms` limits one request. Schemas are
        kept in memory. Raise ConfigError for an unknown or invalid setting.
        """
        properties = {URL: url, **{name.replace("_", "."): value for name, value in settings.items()}}
        unknown = [name for name in properties if not RegistrySettings.is_known(name) or name in OF_SERIALISERS]
        if unknown:
            raise ConfigError(
                f"{unknown[0]} is not a property of a schema registry; use basic.auth.user.info, "
                "bearer.auth.token or schema.registry.ssl.*"
            )
        return cls(RegistrySettings.from_properties(properties), timeout_ms=timeout_ms)

    def __repr__(self) -> str:
        return f"<SchemaRegistry {', '.join(self._urls)} schemas={len(self._schemas)}>"

    # Schemas by id

    def schema(self, id: int, subject: str | None = None) -> Schema:
        """Return the schema of an id. `subject` helps a registry whose ids belong to subjects."""
        return self._once(id, lambda: self._by_id(id, subject))

    def by_guid(self, guid: str) -> Schema:
        """Return the schema of a GUID, in the form of a UUID."""
        path = f"/schemas/guids/{quote(guid, safe='')}"
        return self._once(guid, lambda: schema_of(self._get(path), guid=guid))

    def by_apicurio_id(self, id: int) -> Schema:
        """Return the schema of an id of eight bytes, which Apicurio's serialisers write: its global or content id."""
        return self._once(("apicurio", id), lambda: self._by_apicurio_id(id))

    def _by_id(self, id: int, subject: str | None) -> Schema:
        try:
            return schema_of(self._get(f"/schemas/ids/{id}"), id=id)
        except NotFound:
            if subject is None:
                raise
        return schema_of(self._get(f"/schemas/ids/{id}?subject={quote(subject, safe='')}"), id=id)

    def _by_apicurio_id(self, id: int) -> Schema:
        kind = self._use_id or self._default_use_id
        path = f"ids/{'contentIds' if kind == 'contentId' else 'globalIds'}/{id}"
        text = self._apicurio(path)
        references = tuple(
            Reference(str(row.get("name")), str(row.get("artifactId")), whole_of(row.get("version"), 1))
            for row in objects_of(parse_json(self._apicurio(f"{path}/references")))
        )
        return Schema(kind_of(text), text, references)

    @cached_property
    def _default_use_id(self) -> str:
        """Apicurio 3 writes content ids, its earlier versions global ids."""
        try:
            info = parse_json(self._apicurio("system/info"))
        except (NotFound, RegistryError):
            return "globalId"
        version = info.get("version") if isinstance(info, dict) else None
        return "contentId" if str(version)[:1].isdigit() and not str(version).startswith(("1.", "2.")) else "globalId"

    def _apicurio(self, path: str) -> str:
        """GET from Apicurio's own interface, which is beside the compatible one."""
        base, found, _ = self._urls[0].partition(_APICURIO)
        if not found:
            raise NotFound(
                "an id of eight bytes is Apicurio's; schema.registry.url is not that of an Apicurio registry"
            )
        return text_of(self._send("GET", f"{base}/apis/registry/v2/{path}", None))

    def _once(self, key: Key, fetch: Callable[[], Schema]) -> Schema:
        schema = self._schemas.get(key)
        if schema is not None:
            return schema
        if self._unknown and self._clock.now_ms() >= self._unknown_until_ms:
            self._unknown.clear()
        if key in self._unknown or len(self._unknown) >= _MAX_UNKNOWN_IDS:
            more = "" if key in self._unknown else f"; {_MAX_UNKNOWN_IDS} others are unknown, so it was not asked for"
            raise NotFound(f"the registry has no schema with {_named(key)}{more}")
        schema = self._disk.load(key)
        if schema is not None:
            self._of_disk.add(key)
        else:
            try:
                schema = fetch()
            except NotFound:
                if not self._unknown:
                    self._unknown_until_ms = self._clock.now_ms() + _UNKNOWN_MS
                self._unknown.add(key)
                raise NotFound(f"the registry has no schema with {_named(key)}") from None
            self._disk.save(key, schema)
        self._schemas[key] = schema
        return schema

    def forget(self, schema: Schema) -> bool:
        """Forget a schema that was read from disk, so that it is fetched again; False if it was not."""
        for key, known in list(self._schemas.items()):
            if known is schema and key in self._of_disk:
                self._of_disk.discard(key)
                del self._schemas[key]
                self._closures.clear()
                self._disk.drop(key)
                return True
        return False

    # Subjects

    def subjects(self) -> list[str]:
        """Return the names of all subjects, sorted."""
        return sorted(texts_of(self._get("/subjects")))

    def versions(self, subject: str) -> list[int]:
        """Return the versions of a subject, ascending."""
        answer = self._get(f"/subjects/{quote(subject, safe='')}/versions")
        if not isinstance(answer, list) or not all(isinstance(number, int) for number in answer):
            raise junk()
        return sorted(answer)

    def version(self, subject: str, version: int | str = "latest") -> Schema:
        """Return one version of a subject; `latest` is the newest."""
        return self._version(subject, version, "")

    def latest(self, subject: str) -> Schema:
        """Return the newest version of a subject."""
        return self.version(subject)

    def _version(self, subject: str, version: int | str, query: str) -> Schema:
        try:
            return schema_of(self._get(f"/subjects/{quote(subject, safe='')}/versions/{version}{query}"))
        except NotFound:
            missing = "" if version == "latest" else f"version {version} of "
            raise NotFound(f"the registry has no {missing}subject {subject!r}") from None

    def lookup(self, subject: str, schema: Schema) -> Schema:
        """Return this schema as the subject has it, with its id. NotFound if the subject does not have it."""
        answer = self._post(f"/subjects/{quote(subject, safe='')}", body_of(schema))
        found = schema_of(answer, fallback=schema)
        if found.id is None:
            raise junk()
        return found

    def register(self, subject: str, schema: Schema) -> Schema:
        """Add this schema to a subject, unless it is there, and return it with its id."""
        answer = self._post(f"/subjects/{quote(subject, safe='')}/versions", body_of(schema))
        id = answer.get("id") if isinstance(answer, dict) else None
        if not isinstance(id, int):
            raise junk()
        return Schema(schema.kind, schema.text, schema.references, id, subject=subject)

    def compatibility(
        self, subject: str, schema: Schema, version: int | str = "latest"
    ) -> tuple[bool, tuple[str, ...]]:
        """Return whether the subject's rule allows this schema after a version, and the registry's reasons if not."""
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions/{version}?verbose=true"
        answer = self._post(path, body_of(schema))
        if not isinstance(answer, dict) or not isinstance(answer.get("is_compatible"), bool):
            raise junk()
        reasons = answer.get("messages") or answer.get("reason") or []  # the latter is Apicurio's
        return answer["is_compatible"], tuple(map(str, reasons if isinstance(reasons, list) else [reasons]))

    def config(self, subject: str | None = None) -> str:
        """Return the compatibility rule of a subject, or of those without their own: BACKWARD, FULL, NONE, ..."""
        path = "/config" if subject is None else f"/config/{quote(subject, safe='')}?defaultToGlobal=true"
        answer = self._get(path)
        level = answer.get("compatibilityLevel", answer.get("compatibility")) if isinstance(answer, dict) else None
        if not isinstance(level, str):
            raise junk()
        if subject is not None and level == "NONE" and _APICURIO in self._urls[0]:
            return self.config()
        return level

    # References

    def closure(self, schema: Schema) -> list[tuple[str, Schema]]:
        """Return all schemas that this one refers to, each once, with the name it is referred to by: leaves first."""
        known = self._closures.get(schema)
        if known is None:
            known = self._closures[schema] = self._closure_of(schema)
        return known

    def _closure_of(self, schema: Schema) -> list[tuple[str, Schema]]:
        order: list[tuple[str, Schema]] = []
        begun: set[Reference] = set()
        # A stack, not recursion: a chain of references may be long.
        stack: list[tuple[Reference | None, Schema | None]] = [
            (reference, None) for reference in reversed(schema.references)
        ]
        while stack:
            reference, done = stack.pop()
            assert reference is not None
            if done is not None:
                order.append((reference.name, done))
                continue
            if reference in begun:
                continue  # a diamond, or a cycle: no format allows a cycle, and its parser reports it
            begun.add(reference)
            if len(begun) > _MAX_REFERENCES:
                raise RegistryError(f"a schema refers to more than {_MAX_REFERENCES} others")
            used = self._referred(reference)
            stack.append((reference, used))
            stack += [(reference, None) for reference in reversed(used.references)]
        return order

    def _referred(self, reference: Reference) -> Schema:
        key = (reference.subject, reference.version)
        if key not in self._versions:
            # A version that others refer to may have been deleted softly.
            self._versions[key] = self._version(*key, "?deleted=true")
        return self._versions[key]

    # Requests

    def _get(self, path: str) -> Any:
        return parse_json(self._request("GET", path, None))

    def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        return parse_json(self._request("POST", path, json.dumps(body).encode()))

    def _request(self, method: str, path: str, body: bytes | None) -> bytes:
        failure: RegistryError | None = None
        for url in self._urls:
            try:
                answer = self._send(method, url + path, body)
            except RegistryError as error:
                if not error.retriable:
                    raise
                failure = failure or error
                continue
            if url != self._urls[0]:
                self._urls = [
                    url,
                    *(other for other in self._urls if other != url),
                ]  # at once: threads share a registry
            return answer
        assert failure is not None
        raise failure

    def _send(self, method: str, url: str, body: bytes | None) -> bytes:
        from kcli.security.http_request import HttpError, address_of, parse_url, send_request

        parts = parse_url(url)
        if parts is None:
            raise RegistryError(f"schema registry: {url!r} is not a valid URL")
        where = f"schema registry {address_of(parts)}"
        try:
            answer = send_request(
                parts,
                self._headers(body),
                body,
                connect_timeout_ms=min(10_000.0, self._timeout_ms),
                read_timeout_ms=self._timeout_ms,
                tls=lambda: self._context,
                method=method,
                max_body_bytes=_MAX_ANSWER_BYTES,
            )
        except HttpError as error:
            raise RegistryError.of(f"{where}: {error}", None, retriable=error.retriable) from None
        if answer.status < 300:
            return answer.body
        raise self._refusal(where, parts, answer.status, answer.body)

    def _refusal(self, where: str, parts: SplitResult, status: int, body: bytes) -> KcliError:
        if status in (401, 403):
            cure = "check basic.auth.user.info or bearer.auth.token"
            what = "it refuses the credentials" if self._authorization else "it asks for credentials"
            return RegistryError.of(f"{where}: {what} (status {status}); {cure}", status)
        code, message = self._problem(body)
        if status == 404 and code >= 40400:
            return NotFound(f"{where}: {message}")
        if status == 404:
            path = parts.path or "/"
            return RegistryError.of(
                f"{where}: there is no schema registry at the URL: {path} is unknown (status 404)", 404
            )
        again = status == 429 or status >= 500
        return RegistryError.of(f"{where}: {message or 'it failed'} (status {status})", status, retriable=again)

    def _problem(self, body: bytes) -> tuple[int, str | None]:
        """The code and message in an answer, on one line and without secrets; 0 and None if it is not a registry's."""
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            return 0, None
        if not isinstance(answer, dict) or not isinstance(answer.get("error_code"), int):
            return 0, None
        code = answer["error_code"]
        text = str(answer.get("message"))
        secrets = (self._settings.user_info, self._settings.bearer_auth_token)
        for secret in (given.reveal() for given in secrets if given):
            if any(part and part in text for part in (secret, secret.partition(":")[2])):
                return code, "it refused the request with a message that repeats the password"
        line = " ".join("".join(c if c.isprintable() else " " for c in text[:2000]).split())
        return code, line if len(line) <= 300 else f"{line[:300]}..."

    def _headers(self, body: bytes | None) -> dict[str, str]:
        headers = {"Accept": f"{_MEDIA_TYPE}, application/json", "User-Agent": "kcli"}
        if body is not None:
            headers["Content-Type"] = _MEDIA_TYPE
        authorization = self._authorization
        if authorization is not None:
            headers["Authorization"] = authorization.reveal()
        if self._settings.bearer_auth_token is not None:
            for name, value in (
                ("target-sr-cluster", self._settings.bearer_auth_logical_cluster),
                ("Confluent-Identity-Pool-Id", self._settings.bearer_auth_identity_pool_id),
            ):
                if value:
                    headers[name] = value
        return headers

    @cached_property
    def _authorization(self) -> Secret | None:
        if self._settings.bearer_auth_token:
            return Secret(f"Bearer {self._settings.bearer_auth_token.reveal()}")
        if self._settings.user_info:
            return Secret(f"Basic {b64encode(self._settings.user_info.reveal().encode()).decode()}")
        return None

    @cached_property
    def _context(self) -> SSLContext:
        from kcli.security.tls import client_context

        return client_context(self._settings.tls)


def _named(key: Key) -> str:
    if isinstance(key, tuple):
        return f"Apicurio's id {key[1]}"
    return f"id {key}" if isinstance(key, int) else f"GUID {key}"
