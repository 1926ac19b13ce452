"""The JAAS text that follows from simpler properties, and the logins that are refused."""

from __future__ import annotations

import pytest

from kcli.client.config import ClientConfig
from kcli.errors import ConfigError
from kcli.security.jaas import parse_jaas

KAFKA = "org.apache.kafka.common.security"


def config(**properties: str) -> ClientConfig:
    names = {name.replace("_", "."): value for name, value in properties.items()}
    return ClientConfig.from_properties({"security.protocol": "SASL_SSL", **names})


def login(**properties: str) -> tuple[str, dict[str, str]]:
    jaas = config(**properties).sasl_jaas_config
    assert jaas is not None
    entry = parse_jaas(jaas.reveal())
    return entry.module.rpartition(".")[2], {name: value.reveal() for name, value in entry.options.items()}


def refusal(**properties: str) -> str:
    with pytest.raises(ConfigError) as error:
        config(**properties)
    assert "hunter2" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("password", ["hunter2", 'a"b', "a\\b", "a'b;c", "a=b c", "\xe9\u20ac", "a\nb"])
@pytest.mark.parametrize(
    ("mechanism", "module"), [("PLAIN", "PlainLoginModule"), ("SCRAM-SHA-256", "ScramLoginModule")]
)
def test_user_name_and_password(mechanism: str, module: str, password: str) -> None:
    made = login(sasl_mechanism=mechanism, sasl_username="alice", sasl_password=password)
    assert made == (module, {"username": "alice", "password": password})


def test_kerberos_uses_the_keytab_or_the_ticket_cache() -> None:
    assert login() == ("Krb5LoginModule", {"useTicketCache": "true", "serviceName": "kafka"})
    assert login(sasl_kerberos_service_name="broker", sasl_kerberos_principal="a@R") == (
        "Krb5LoginModule",
        {"useTicketCache": "true", "principal": "a@R"},
    )
    assert login(sasl_kerberos_keytab="/etc/a.keytab", sasl_kerberos_principal="a@R") == (
        "Krb5LoginModule",
        {
            "useKeyTab": "true",
            "storeKey": "true",
            "keyTab": "/etc/a.keytab",
            "principal": "a@R",
            "serviceName": "kafka",
        },
    )


def test_oauth_with_a_token_endpoint() -> None:
    oidc = {
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_method": "OIDC",
        "sasl_oauthbearer_client_id": "id",
        "sasl_oauthbearer_client_secret": "hunter2",
        "sasl_oauthbearer_token_endpoint_url": "https://idp/token",
        "sasl_oauthbearer_extensions": "logicalCluster=lkc-1,identityPoolId=p",
    }
    assert login(**oidc) == (
        "OAuthBearerLoginModule",
        {"extension_logicalCluster": "lkc-1", "extension_identityPoolId": "p"},
    )
    made = config(**oidc)
    assert made.sasl_login_callback_handler_class == f"{KAFKA}.oauthbearer.OAuthBearerLoginCallbackHandler"
    assert made.sasl_oauthbearer_client_credentials_client_id == "id"
    assert "hunter2" not in repr(vars(made))
    bearer = config(**oidc, sasl_oauthbearer_grant_type="urn:ietf:params:oauth:grant-type:jwt-bearer")
    assert bearer.sasl_oauthbearer_jwt_retriever_class == f"{KAFKA}.oauthbearer.JwtBearerJwtRetriever"


def test_oauth_with_unsecured_tokens() -> None:
    unsecured = {"sasl_mechanism": "OAUTHBEARER", "enable_sasl_oauthbearer_unsecure_jwt": "true"}
    assert login(**unsecured, sasl_oauthbearer_config="principal=admin scope=a,b lifeSeconds=60 extension_x=1") == (
        "OAuthBearerLoginModule",
        {
            "unsecuredLoginStringClaim_sub": "admin",
            "unsecuredLoginListClaim_scope": "a,b",
            "unsecuredLoginLifetimeSeconds": "60",
            "extension_x": "1",
        },
    )
    assert "has an unknown key" in refusal(**unsecured, sasl_oauthbearer_config="hunter2=1")
    assert "element 1 has no equals sign" in refusal(**unsecured, sasl_oauthbearer_config="hunter2")


def test_aws_needs_no_properties() -> None:
    assert login(sasl_mechanism="AWS_MSK_IAM") == ("IAMLoginModule", {})


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        (
            {"sasl_mechanism": "PLAIN"},
            "sasl.mechanism=PLAIN needs a login; set sasl.jaas.config, or sasl.username and sasl.password",
        ),
        (
            {"sasl_mechanism": "PLAIN", "sasl_username": "alice"},
            "sasl.password is missing; PLAIN needs sasl.username and sasl.password",
        ),
        (
            {"sasl_mechanism": "PLAIN", "sasl_password": "hunter2"},
            "sasl.username is missing; PLAIN needs sasl.username and sasl.password",
        ),
        (
            {"sasl_mechanism": "PLAIN", "sasl_username": "a", "sasl_jaas_config": "hunter2"},
            "sasl.jaas.config and sasl.username are two logins; remove one of them",
        ),
        (
            {"sasl_username": "a", "sasl_password": "hunter2"},
            "sasl.username is for PLAIN and SCRAM, but sasl.mechanism is GSSAPI; set sasl.mechanism",
        ),
        (
            {"sasl_jaas_config": f'{KAFKA}.scram.ScramLoginModule required username="a" password="hunter2";'},
            "sasl.mechanism is not set, and its default is GSSAPI; set SCRAM-SHA-256 or SCRAM-SHA-512, for which "
            "sasl.jaas.config has a login",
        ),
        (
            {"sasl_mechanism": "OAUTHBEARER"},
            "sasl.mechanism=OAUTHBEARER needs a login; set sasl.jaas.config, or sasl.oauthbearer.token.endpoint.url "
            "with a client id and secret",
        ),
        (
            {"sasl_login_class": "com.example.Login"},
            "sasl.login.class: kcli does not have the Java class com.example.Login; use "
            f"{KAFKA}.authenticator.DefaultLogin, {KAFKA}.kerberos.KerberosLogin or "
            f"{KAFKA}.oauthbearer.internals.OAuthBearerRefreshingLogin",
        ),
        (
            {"ssl_engine_factory_class": "com.example.Factory"},
            "ssl.engine.factory.class is not supported: kcli cannot run Java classes; remove it",
        ),
    ],
)
def test_a_missing_or_contradicting_login_is_refused(properties: dict[str, str], sentence: str) -> None:
    assert refusal(**properties) == sentence


def test_an_empty_jaas_text_is_not_set() -> None:
    assert login(sasl_mechanism="PLAIN", sasl_username="a", sasl_password="b", sasl_jaas_config="")[0] == (
        "PlainLoginModule"
    )
    assert config(security_protocol="PLAINTEXT", sasl_login_class="com.example.Login").no_effect == {
        "sasl.login.class": "security.protocol is PLAINTEXT"
    }
