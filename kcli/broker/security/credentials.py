"""SCRAM users (KIP-554): salt, iterations, StoredKey and ServerKey of each user and mechanism, in the metadata log.

No password can be read from them. Users in the JAAS text of a listener are added to those of the log by a broker alone;
on a node they are known on that node only, and the log has precedence over them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kcli.secret import Secret
from kcli.security.sasl.scram import ScramCredential, scram_credential

if TYPE_CHECKING:
    from kcli.broker.cluster.image import MetadataImage
    from kcli.protocol.metadata_records import UserScramCredentialRecord

#: The numbers of the mechanisms in requests and records.
MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
MECHANISM_NUMBERS = {name: number for number, name in MECHANISMS.items()}


class Change(NamedTuple):
    """A credential to set, or to remove if `credential` is None."""

    user: str
    mechanism: str
    credential: ScramCredential | None


def scram_credential_of(record: UserScramCredentialRecord) -> ScramCredential:
    return ScramCredential(record.salt, record.iterations, record.stored_key, record.server_key)


class Credentials:
    """The SCRAM credentials of all users: mechanism -> user -> credential."""

    def __init__(self, image: MetadataImage, store: Callable[[list[Change]], None] | None = None) -> None:
        """`store` writes credentials to the log; without it this broker cannot."""
        self._store = store
        self._own: dict[str, dict[str, ScramCredential]] = {name: {} for name in MECHANISM_NUMBERS}
        self.follow(image)

    def __repr__(self) -> str:
        return f"<Credentials of {len(self.users())} users>"

    def follow(self, image: MetadataImage) -> None:
        """Read the users of the image."""
        changed = {name: dict(users) for name, users in self._own.items()}
        for (user, number), record in image.scram.items():
            if number in MECHANISMS:
                changed[MECHANISMS[number]][user] = scram_credential_of(record)
        self._by_mechanism = changed

    def users(self) -> list[str]:
        """Return all names, sorted."""
        return sorted({user for users in self._by_mechanism.values() for user in users})

    def credential(self, mechanism: str, user: str) -> ScramCredential | None:
        return self._by_mechanism[mechanism].get(user)

    def ensure(self, mechanism: str, passwords: Mapping[str, Secret]) -> None:
        """Set the passwords of a listener's users. BrokerError if they cannot be stored."""
        if self._store is None:
            own = {user: scram_credential(mechanism, password.reveal()) for user, password in passwords.items()}
            self._own[mechanism].update(own)
            self._by_mechanism[mechanism] = {**own, **self._by_mechanism[mechanism]}
            return
        missing = [pair for pair in passwords.items() if not self._has_password(mechanism, *pair)]
        self._store([Change(user, mechanism, scram_credential(mechanism, word.reveal())) for user, word in missing])

    def _has_password(self, mechanism: str, user: str, password: Secret) -> bool:
        known = self.credential(mechanism, user)
        return known is not None and known == scram_credential(
            mechanism, password.reveal(), known.iterations, known.salt
        )
