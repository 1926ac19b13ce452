"""SCRAM users (KIP-554): salt, iterations, StoredKey and ServerKey of each user and mechanism, in the data directory.

No password can be read from them.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kcli.broker.security.stored_document import StoredDocument
from kcli.secret import Secret
from kcli.security.sasl.scram import MIN_ITERATIONS, ScramCredential, scram_credential

if TYPE_CHECKING:
    from kcli.broker.files import Files

FILE_NAME = "kcli-credentials.json"
#: The numbers of the mechanisms in requests.
MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


class Change(NamedTuple):
    """A credential to set, or to remove if `credential` is None."""

    user: str
    mechanism: str
    credential: ScramCredential | None


class Credentials:
    """The SCRAM credentials of all users: mechanism -> user -> credential. ConfigError if the file is damaged."""

    def __init__(self, files: Files, data_dir: str, fail: Callable[[str], None]) -> None:
        """`fail` takes the data directory offline, with the reason."""
        self._document = StoredDocument(files, f"{data_dir}/{FILE_NAME}", "SCRAM users", fail)
        nothing: dict[str, dict[str, ScramCredential]] = {name: {} for name in MECHANISMS.values()}
        self._by_mechanism = self._document.load(_read, nothing)

    def __repr__(self) -> str:
        return f"<Credentials of {len(self.users())} users>"

    def users(self) -> list[str]:
        """Return all names, sorted."""
        return sorted({user for users in self._by_mechanism.values() for user in users})

    def credential(self, mechanism: str, user: str) -> ScramCredential | None:
        return self._by_mechanism[mechanism].get(user)

    def apply(self, changes: Iterable[Change]) -> None:
        """Set and remove credentials, all or none. BrokerError if they cannot be saved."""
        changed = {mechanism: dict(users) for mechanism, users in self._by_mechanism.items()}
        for user, mechanism, credential in changes:
            if credential is None:
                changed[mechanism].pop(user, None)
            else:
                changed[mechanism][user] = credential
        if changed != self._by_mechanism:
            self._document.save({"scram": {name: _rows(users) for name, users in changed.items()}})
            self._by_mechanism = changed

    def ensure(self, mechanism: str, passwords: Mapping[str, Secret]) -> None:
        """Set the passwords of these users, unless they have them already. BrokerError if that cannot be saved."""
        self.apply(
            Change(user, mechanism, scram_credential(mechanism, password.reveal()))
            for user, password in passwords.items()
            if not self._has_password(mechanism, user, password)
        )

    def _has_password(self, mechanism: str, user: str, password: Secret) -> bool:
        known = self.credential(mechanism, user)
        return known is not None and known == scram_credential(
            mechanism, password.reveal(), known.iterations, known.salt
        )


def _rows(users: Mapping[str, ScramCredential]) -> dict[str, Any]:
    return {
        user: {
            "salt": _base64(one.salt),
            "iterations": one.iterations,
            "stored_key": _base64(one.stored_key),
            "server_key": _base64(one.server_key),
        }
        for user, one in users.items()
    }


def _read(document: Any) -> dict[str, dict[str, ScramCredential]]:
    return {
        mechanism: {
            user: ScramCredential(
                a2b_base64(row["salt"]),
                max(int(row["iterations"]), MIN_ITERATIONS),
                a2b_base64(row["stored_key"]),
                a2b_base64(row["server_key"]),
            )
            for user, row in document["scram"].get(mechanism, {}).items()
        }
        for mechanism in MECHANISMS.values()
    }


def _base64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode()
