"""Brokers with an authorizer: Apache's and ours in turn."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kcli.broker.testing.embedded import EmbeddedBroker
from tests.interop.acl_scene import Scene

OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


@pytest.fixture(scope="session")
def broker_with_acls() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(
        listeners="PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
        sasl_enabled_mechanisms="OAUTHBEARER",
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        super_users="User:ANONYMOUS",
        delegation_token_secret_key="a secret key of the tests",
        offsets_topic_num_partitions=4,
        group_initial_rebalance_delay_ms=0,
        **{"listener.name.sasl.oauthbearer.sasl.jaas.config": f'{OAUTH} required unsecuredLoginStringClaim_sub="b";'},
    ) as broker:
        yield broker


@pytest.fixture(params=["kcli", pytest.param("apache", marks=pytest.mark.real_kafka)])
def acl_scene(request: pytest.FixtureRequest) -> Iterator[Scene]:
    """Apache's broker and ours in turn."""
    if request.param == "kcli":
        broker = request.getfixturevalue("broker_with_acls")
        made = Scene(broker.addresses["PLAINTEXT"], broker.addresses["SASL"])
    else:
        kafka = request.getfixturevalue("secured_kafka")
        made = Scene(kafka.servers("PLAINTEXT"), kafka.servers("SASL"))
    yield made
    made.close()
