"""The ACLs of the cluster: one JSON file in the data directory, and the changes of CreateAcls and DeleteAcls.

Apache Kafka keeps this in its metadata log. Here the file is replaced as a whole before an authorizer uses the change,
so that after a crash either the old or the new ACLs are there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kcli.broker.security.authorizer import AclBinding
from kcli.broker.security.stored_document import VERSION, StoredDocument
from kcli.errors import ConfigError
from kcli.protocol.acls import AclOperation, AclPermissionType, PatternType, ResourceType

if TYPE_CHECKING:
    from kcli.broker.files import Files
    from kcli.broker.security.authorizer import AclFilter, Authorizer

FILE_NAME = "kcli-acls.json"


class AclStore:
    """The file in `data_dir` and the authorizer that uses its ACLs."""

    def __init__(self, files: Files, data_dir: str, authorizer: Authorizer, fail: Callable[[str], None]) -> None:
        """Read the file. ConfigError if it is damaged. `fail` takes the data directory offline."""
        self._files = files
        self._path = f"{data_dir}/{FILE_NAME}"
        self._authorizer = authorizer
        self._document = StoredDocument(files, self._path, "ACLs", fail)
        authorizer.replace(self._load())

    def __repr__(self) -> str:
        return f"<AclStore {self._path} {len(self.bindings)} ACLs>"

    @property
    def bindings(self) -> tuple[AclBinding, ...]:
        """All ACLs, in the order in which they were added."""
        return self._authorizer.bindings

    def add(self, bindings: Iterable[AclBinding]) -> None:
        """Add ACLs; those that exist are ignored. BrokerError if they cannot be saved."""
        self._replace((*self.bindings, *bindings))

    def remove(self, filters: Iterable[AclFilter]) -> list[list[AclBinding]]:
        """Remove the ACLs that match any filter, and return those of each. BrokerError if that cannot be saved."""
        removed = [[binding for binding in self.bindings if one.matches(binding)] for one in filters]
        gone = {binding for matching in removed for binding in matching}
        self._replace(binding for binding in self.bindings if binding not in gone)
        return removed

    def _replace(self, bindings: Iterable[AclBinding]) -> None:
        changed = tuple(dict.fromkeys(bindings))
        if changed == self.bindings:
            return
        self._document.save({"acls": [_row(binding) for binding in changed]})
        self._authorizer.replace(changed)

    def _load(self) -> list[AclBinding]:
        if not self._files.exists(self._path):
            return []
        try:
            document = json.loads(self._files.read_bytes(self._path))
            if document["version"] != VERSION:
                raise ValueError(f"version {document['version']} is not {VERSION}")
            return [_binding(row) for row in document["acls"]]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"{self._path} is damaged ({error}); restore it, or remove it: the broker then has no ACLs"
            ) from None


def _row(binding: AclBinding) -> dict[str, str]:
    """Return an ACL with Kafka's names for its numbers."""
    return {
        "resource_type": ResourceType(binding.resource_type).name,
        "resource_name": binding.resource_name,
        "pattern_type": PatternType(binding.pattern_type).name,
        "principal": binding.principal,
        "host": binding.host,
        "operation": AclOperation(binding.operation).name,
        "permission_type": AclPermissionType(binding.permission_type).name,
    }


def _binding(row: Any) -> AclBinding:
    texts = [row["resource_name"], row["principal"], row["host"]]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{texts!r} are not texts")
    return AclBinding(
        ResourceType[row["resource_type"]],
        row["resource_name"],
        PatternType[row["pattern_type"]],
        row["principal"],
        row["host"],
        AclOperation[row["operation"]],
        AclPermissionType[row["permission_type"]],
    )
