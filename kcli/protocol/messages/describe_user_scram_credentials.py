"""DescribeUserScramCredentials (50): the SCRAM mechanisms of users (KIP-554)."""

from kcli.protocol.wire import *


@struct
class UserName:
    """A user."""

    name: String = ""


@message(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest(Request["DescribeUserScramCredentialsResponse"]):
    """Ask about users; null and an empty list: all users."""

    users: NullableArray[UserName] = []


@struct
class CredentialInfo:
    """A mechanism, 1 SCRAM-SHA-256 or 2 SCRAM-SHA-512, and its iteration count."""

    mechanism: Int8 = 0
    iterations: Int32 = 0


@struct
class DescribeUserScramCredentialsResult:
    """The mechanisms of one user, or the error."""

    user: String = ""
    error_code: Int16 = 0
    error_message: NullableString = ""
    credential_infos: Array[CredentialInfo] = []


@message(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse(Message):
    """A result for each user, or one error."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = ""
    results: Array[DescribeUserScramCredentialsResult] = []
