"""AlterUserScramCredentials (51): set and remove the SCRAM credentials of users (KIP-554)."""

from kcli.protocol.wire import *


@struct
class ScramCredentialDeletion:
    """A credential to remove, by user and mechanism (1 SCRAM-SHA-256, 2 SCRAM-SHA-512)."""

    name: String = ""
    mechanism: Int8 = 0


@struct
class ScramCredentialUpsertion:
    """A credential to set. The client salts the password, so that the broker never gets it."""

    name: String = ""
    mechanism: Int8 = 0
    iterations: Int32 = 0
    salt: Bytes = b""
    salted_password: Bytes = b""


@message(key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsRequest(Request["AlterUserScramCredentialsResponse"]):
    """Remove and set credentials."""

    deletions: Array[ScramCredentialDeletion] = []
    upsertions: Array[ScramCredentialUpsertion] = []


@struct
class AlterUserScramCredentialsResult:
    """The result for one user."""

    user: String = ""
    error_code: Int16 = 0
    error_message: NullableString = ""


@message(key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse(Message):
    """A result for each user."""

    throttle_time_ms: Int32 = 0
    results: Array[AlterUserScramCredentialsResult] = []
