"""AWS_MSK_IAM, the SASL mechanism of Amazon MSK: one JSON object, signed with AWS Signature Version 4.

Sources: https://github.com/aws/aws-msk-iam-auth (the fields and version 2020_10_22) and
https://docs.aws.amazon.com/general/latest/gr/sigv4-create-canonical-request.html.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import NamedTuple
from urllib.parse import quote, urlencode

from kcli import __version__
from kcli.errors import AuthenticationError, ConfigError
from kcli.secret import Secret
from kcli.security.jaas import JaasEntry
from kcli.security.sasl.exchange import ClientExchange

MECHANISM = "AWS_MSK_IAM"
_VERSION = "2020_10_22"
_SERVICE = "kafka-cluster"
_ACTION = "kafka-cluster:Connect"
_ALGORITHM = "AWS4-HMAC-SHA256"
_EXPIRES_S = 900
_REGION = re.compile(r"\.([a-z]{2}(?:-[a-z]+)+-\d)\.amazonaws\.com(?:\.cn)?\Z")


class AwsMskIamClient:
    """The client's side. Credentials are looked up for each connection, because temporary ones expire."""

    name = MECHANISM
    user: str | None = None

    def __init__(self, entry: JaasEntry, environ: Mapping[str, str] = os.environ) -> None:
        self._options = {name: value.reveal() for name, value in entry.options.items()}
        self._environ = environ

    def start(self, host: str) -> ClientExchange:
        """Begin the exchange. ConfigError if there are no credentials, or the AWS region is not known."""
        region = region_of(host, self._environ)
        now = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        return exchange(find_credentials(self._options, self._environ), host, region, now)


class Credentials(NamedTuple):
    """An AWS access key; `session_token` belongs to temporary ones."""

    access_key: str
    secret_key: Secret
    session_token: Secret | None = None


def exchange(credentials: Credentials, host: str, region: str, now: str) -> ClientExchange:
    """Authenticate with the broker on `host`. `now` is the UTC time as `20260131T100000Z`.

    The broker answers with JSON that has its version and a request id; AuthenticationError if it does not.
    """
    answer = yield json.dumps(signed_payload(credentials, host, region, now)).encode()
    try:
        version = json.loads(answer)["version"]
    except (ValueError, KeyError, TypeError):
        raise AuthenticationError("the broker's answer to AWS_MSK_IAM is not valid") from None
    if version != _VERSION:
        raise AuthenticationError(f"the broker's answer to AWS_MSK_IAM has another version than {_VERSION}")


def signed_payload(credentials: Credentials, host: str, region: str, now: str) -> dict[str, str]:
    """Return the fields of the client's message, with the signature."""
    parameters = signed_parameters(credentials, host, region, now)
    fields = {"version": _VERSION, "host": host, "user-agent": f"kcli/{__version__}"}
    return fields | {name.lower(): value for name, value in parameters.items()}


def signed_parameters(credentials: Credentials, host: str, region: str, now: str) -> dict[str, str]:
    """Return the parameters of the presigned request `GET https://host/?Action=kafka-cluster:Connect`."""
    import hashlib
    import hmac

    scope = f"{now[:8]}/{region}/{_SERVICE}/aws4_request"
    parameters = {
        "Action": _ACTION,
        "X-Amz-Algorithm": _ALGORITHM,
        "X-Amz-Credential": f"{credentials.access_key}/{scope}",
        "X-Amz-Date": now,
        "X-Amz-Expires": str(_EXPIRES_S),
        "X-Amz-SignedHeaders": "host",
    }
    if credentials.session_token is not None:
        parameters["X-Amz-Security-Token"] = credentials.session_token.reveal()
    query = urlencode(sorted(parameters.items()), quote_via=quote, safe="-_.~")
    request = f"GET\n/\n{query}\nhost:{host}\n\nhost\n{hashlib.sha256(b'').hexdigest()}"
    text = f"{_ALGORITHM}\n{now}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{credentials.secret_key.reveal()}".encode()
    for part in (*scope.split("/"), text):
        key = hmac.digest(key, part.encode(), "sha256")
    return {**parameters, "X-Amz-Signature": key.hex()}


def region_of(host: str, environ: Mapping[str, str]) -> str:
    """Return the AWS region in the name of a broker, else AWS_REGION or AWS_DEFAULT_REGION. ConfigError if none."""
    named = _REGION.search(host)
    region = named.group(1) if named else environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    if not region:
        raise ConfigError(f"AWS_MSK_IAM: the host name {host} has no AWS region; set AWS_REGION")
    return region


def find_credentials(options: Mapping[str, str], environ: Mapping[str, str]) -> Credentials:
    """Return the credentials that the options of the JAAS module and the environment name. ConfigError if none.

    An access key in the environment needs no package; profiles, roles and instance metadata need botocore. Options are
    `awsProfileName`, `awsRoleArn`, `awsRoleSessionName`, `awsRoleExternalId` and `awsStsRegion`, as in Java.
    """
    in_environment = environ.get("AWS_ACCESS_KEY_ID") and environ.get("AWS_SECRET_ACCESS_KEY")
    if in_environment and not {"awsProfileName", "awsRoleArn"} & options.keys():
        token = environ.get("AWS_SESSION_TOKEN")
        secret = Secret(environ["AWS_SECRET_ACCESS_KEY"])
        return Credentials(environ["AWS_ACCESS_KEY_ID"], secret, Secret(token) if token else None)
    try:
        import botocore.exceptions
        import botocore.session
    except ImportError:
        raise ConfigError(
            "AWS_MSK_IAM: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or install botocore for profiles, roles and "
            "instance metadata"
        ) from None
    try:
        return _from_botocore(options)
    except botocore.exceptions.BotoCoreError as error:
        raise ConfigError(f"AWS_MSK_IAM: {str(error).splitlines()[0]}") from None
    except botocore.exceptions.ClientError as error:
        code = error.response.get("Error", {}).get("Code", "an error")
        raise AuthenticationError(f"AWS_MSK_IAM: AWS answered {code} to {error.operation_name}") from None


def _from_botocore(options: Mapping[str, str]) -> Credentials:
    import botocore.session

    session = botocore.session.Session(profile=options.get("awsProfileName"))
    if "awsRoleArn" not in options:
        found = session.get_credentials()
        if found is None:
            raise ConfigError("AWS_MSK_IAM: no AWS credentials were found in the environment, profiles or metadata")
        frozen = found.get_frozen_credentials()
        return Credentials(frozen.access_key, Secret(frozen.secret_key), Secret(frozen.token) if frozen.token else None)
    sts = session.create_client("sts", region_name=options.get("awsStsRegion"))
    role = {"RoleArn": options["awsRoleArn"], "RoleSessionName": options.get("awsRoleSessionName", "kcli")}
    if "awsRoleExternalId" in options:
        role["ExternalId"] = options["awsRoleExternalId"]
    given = sts.assume_role(**role)["Credentials"]
    return Credentials(given["AccessKeyId"], Secret(given["SecretAccessKey"]), Secret(given["SessionToken"]))
