"""AWS_MSK_IAM: the signature, the message, and where credentials and region come from."""

from __future__ import annotations

import json

import pytest

from kcli.errors import AuthenticationError, ConfigError
from kcli.secret import Secret
from kcli.security.jaas import parse_jaas
from kcli.security.sasl.aws_msk_iam import (
    AwsMskIamClient,
    Credentials,
    exchange,
    find_credentials,
    region_of,
    signed_parameters,
)

HOST = "b-1.demo.abc123.c2.kafka.eu-central-1.amazonaws.com"
KEY = Credentials("AKIAIOSFODNN7EXAMPLE", Secret("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"))
WITH_TOKEN = KEY._replace(session_token=Secret("tok/en+=x"))
NOW = "20260131T100000Z"
JAAS = parse_jaas("software.amazon.msk.auth.iam.IAMLoginModule required;")


@pytest.mark.parametrize(
    ("credentials", "signature"),
    [
        (KEY, "f5c188a01fde4ceaf747e1858be5a77e3b37b1ac8f9f7515f618628e7918e640"),
        (WITH_TOKEN, "8cef578c98a5efbc47c4b02c278fb64a2c24d89be1c6dfda3bb157fa2ae03576"),
    ],
)
def test_the_signature_is_that_of_awss_own_library(credentials: Credentials, signature: str) -> None:
    """Origin: botocore 1.44.5, SigV4QueryAuth of GET https://HOST/?Action=kafka-cluster:Connect at this time."""
    assert signed_parameters(credentials, HOST, "eu-central-1", NOW)["X-Amz-Signature"] == signature


def test_the_message_has_the_fields_of_version_2020_10_22() -> None:
    fields = json.loads(next(exchange(WITH_TOKEN, HOST, "eu-central-1", NOW)))
    assert fields.pop("user-agent").startswith("kcli/")
    assert fields.pop("x-amz-signature")
    assert fields == {
        "version": "2020_10_22",
        "host": HOST,
        "action": "kafka-cluster:Connect",
        "x-amz-algorithm": "AWS4-HMAC-SHA256",
        "x-amz-credential": "AKIAIOSFODNN7EXAMPLE/20260131/eu-central-1/kafka-cluster/aws4_request",
        "x-amz-date": NOW,
        "x-amz-expires": "900",
        "x-amz-signedheaders": "host",
        "x-amz-security-token": "tok/en+=x",
    }


def test_the_exchange_ends_with_the_brokers_answer() -> None:
    steps = exchange(KEY, HOST, "eu-central-1", NOW)
    next(steps)
    with pytest.raises(StopIteration):
        steps.send(b'{"version":"2020_10_22","request-id":"1"}')


@pytest.mark.parametrize("answer", [b"", b"{}", b"[]", b"\xff", b'{"version":"2"}'])
def test_another_answer_is_an_authentication_error(answer: bytes) -> None:
    steps = exchange(KEY, HOST, "eu-central-1", NOW)
    next(steps)
    with pytest.raises(AuthenticationError, match="AWS_MSK_IAM"):
        steps.send(answer)


@pytest.mark.parametrize(
    ("host", "region"),
    [
        (HOST, "eu-central-1"),
        ("boot-x.c1.kafka-serverless.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("b-2.x.c2.kafka.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("localhost", "ap-south-1"),
    ],
)
def test_the_region_is_in_the_host_name_or_the_environment(host: str, region: str) -> None:
    assert region_of(host, {"AWS_REGION": "ap-south-1"}) == region


def test_without_a_region_the_error_names_the_variable() -> None:
    with pytest.raises(ConfigError, match="localhost has no AWS region; set AWS_REGION"):
        region_of("localhost", {})


def test_credentials_of_the_environment_need_no_package() -> None:
    environ = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_SESSION_TOKEN": "c"}
    assert find_credentials({}, environ) == Credentials("a", Secret("b"), Secret("c"))
    message = json.loads(next(AwsMskIamClient(JAAS, environ).start(HOST)))
    assert message["x-amz-credential"].startswith("a/")


def test_without_credentials_or_botocore_the_error_names_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "botocore.exceptions", None)
    with pytest.raises(ConfigError, match="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or install botocore"):
        find_credentials({"awsProfileName": "prod"}, {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"})
