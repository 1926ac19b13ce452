"""JSON Web Tokens: the examples of RFC 7515, and claims as Kafka's BrokerJwtValidator checks them."""

import json

import pytest

from kcli.errors import ConfigError
from kcli.secret import Secret
from kcli.security import jwt
from kcli.security.jwt import ClaimRules, InvalidJwt, check_claims, decode
from tests.needs import needs_cryptography

# RFC 7515, appendix A.2: a token signed with RS256, and the public key.
RFC_RS256 = (
    "eyJhbGciOiJSUzI1NiJ9"
    ".eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
    ".cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CU"
    "Ar7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO"
    "--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN"
    "_IoypGlUPQGe77Rw"
)
RFC_RS256_KEY = {
    "kty": "RSA",
    "n": "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZ"
    "S-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2C"
    "apHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb"
    "54h4FRWyuXpoQ",
    "e": "AQAB",
}
# RFC 7515, appendix A.3: a token signed with ES256, and the public key.
RFC_ES256 = (
    "eyJhbGciOiJFUzI1NiJ9"
    ".eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
    ".DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
)
RFC_ES256_KEY = {
    "kty": "EC",
    "crv": "P-256",
    "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
}
CLAIMS = {"iss": "me", "sub": "alice", "aud": "kafka", "exp": 2000, "iat": 1000, "scope": "a b"}
RULES = ClaimRules(("kafka",), "me", clock_skew_s=30)


def public_key(jwk: dict[str, str]):
    needs_cryptography()
    ((_, key),) = jwt.parse_key_set(json.dumps({"keys": [jwk]}).encode())
    return key


@pytest.mark.parametrize(("token", "jwk"), [(RFC_RS256, RFC_RS256_KEY), (RFC_ES256, RFC_ES256_KEY)])
def test_examples_of_rfc_7515(token: str, jwk: dict[str, str]):
    decoded = decode(token)
    assert decoded.claims["iss"] == "joe"
    jwt.verify(decoded, public_key(jwk))


@pytest.mark.parametrize(
    ("token", "jwk", "problem"),
    [
        (RFC_RS256[:-6] + "AAAAAA", RFC_RS256_KEY, "the signature is wrong"),
        (RFC_ES256[:-6] + "AAAAAA", RFC_ES256_KEY, "the signature is wrong"),
        (RFC_ES256, RFC_RS256_KEY, "the algorithm of the token is not that of the key"),
        (RFC_RS256, RFC_ES256_KEY, "the algorithm of the token is not that of the key"),
        (jwt.unsecured(CLAIMS).reveal(), RFC_RS256_KEY, "the algorithm of the token is not that of the key"),
        (
            RFC_RS256.replace("eyJhbGciOiJSUzI1NiJ9", "eyJhbGciOiJIUzI1NiJ9"),
            RFC_RS256_KEY,
            "the algorithm of the token",
        ),
        (RFC_RS256.replace(".eyJpc3MiOiJqb2Ui", ".eyJpc3MiOiJqb2Uj"), RFC_RS256_KEY, "."),
        (RFC_ES256.rpartition(".")[0] + ".", RFC_ES256_KEY, "the algorithm of the token is not that of the key"),
    ],
)
def test_wrong_signature(token: str, jwk: dict[str, str], problem: str):
    key = public_key(jwk)
    with pytest.raises(InvalidJwt, match=problem):
        jwt.verify(decode(token), key)


# RFC 7515, appendix E: the header names a critical extension that nobody knows.
RFC_CRITICAL = (
    "eyJhbGciOiJub25lIiwNCiAiY3JpdCI6WyJodHRwOi8vZXhhbXBsZS5jb20vVU5ERUZJTkVEIl0sDQogImh0dHA6Ly9leGFtcGxlLmNvbS9VTkRFR"
    "klORUQiOnRydWUNCn0.RkFJTA."
)


def test_token_with_a_critical_extension_is_refused():
    needs_cryptography()
    from cryptography.hazmat.primitives.asymmetric import ec

    with pytest.raises(InvalidJwt):
        decode(RFC_CRITICAL)  # its claims are not JSON
    header = RFC_CRITICAL.partition(".")[0]
    with pytest.raises(InvalidJwt, match=r"critical extensions \(header crit\)"):
        jwt.check_critical(decode(f"{header}.{jwt.unsecured(CLAIMS).reveal().partition('.')[2]}"))
    key = ec.generate_private_key(ec.SECP256R1())
    for critical in (["exp"], ["b64"], [], None, "x"):
        token = decode(jwt.sign({"crit": critical, "b64": False}, CLAIMS, key, "ES256").reveal())
        with pytest.raises(InvalidJwt, match=r"critical extensions \(header crit\)"):
            jwt.verify(token, key.public_key())


@pytest.mark.parametrize(
    "token",
    [
        "",
        "swordfish",
        "a.b",
        "a.b.c.d",
        "!!!!.e30.",
        "e30.e30=.",
        "e30.e3+0.",
        "W10.e30.",
        "e30.W10.",
        "_w.e30.",
        "e30.eyJ9.x",
        "x" * 2_000_000,
        f"e30.{'W1tb' * 50_000}.",
    ],
)
def test_malformed_token(token: str):
    with pytest.raises(InvalidJwt) as refused:
        decode(token)
    assert "swordfish" not in str(refused.value)


@pytest.mark.parametrize("algorithm", jwt.ALGORITHMS)
@pytest.mark.parametrize("password", [None, Secret("swordfish")])
def test_signed_token_verifies(algorithm: str, password: Secret | None):
    needs_cryptography()
    from cryptography.hazmat.primitives.asymmetric import ec, rsa
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    made = ec.generate_private_key(ec.SECP256R1()) if algorithm == "ES256" else rsa.generate_private_key(65537, 2048)
    encryption = BestAvailableEncryption(password.reveal().encode()) if password else NoEncryption()
    pem = made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
    key = jwt.load_private_key(pem, password, "key.file")
    token = jwt.sign({"kid": "k"}, CLAIMS, key, algorithm)
    decoded = decode(token.reveal())
    assert decoded.header == {"typ": "JWT", "kid": "k", "alg": algorithm}
    assert decoded.claims == CLAIMS
    jwt.verify(decoded, made.public_key())
    other = next(name for name in jwt.ALGORITHMS if name != algorithm)
    with pytest.raises(ConfigError, match=f"the algorithm {other} needs an? (RSA key|key of the curve P-256)"):
        jwt.sign({}, CLAIMS, key, other)
    wrong = Secret("sword-fish-2") if password else Secret("swordfish")
    with pytest.raises(ConfigError, match=r"^key\.file: the key ") as refused:
        jwt.load_private_key(pem, wrong, "key.file")
    assert "fish" not in str(refused.value)


@pytest.mark.parametrize(
    "pem", [b"", b"swordfish", b"-----BEGIN PRIVATE KEY-----\nswordfish\n-----END PRIVATE KEY-----\n"]
)
def test_malformed_private_key(pem: bytes):
    needs_cryptography()
    with pytest.raises(ConfigError, match=r"^key\.file: the key is not a private key in PEM") as refused:
        jwt.load_private_key(pem, None, "key.file")
    assert "swordfish" not in str(refused.value)


def test_claims_that_kafka_uses():
    assert check_claims(CLAIMS, RULES, 1500) == ("alice", 2000, ("a", "b"))
    other = ClaimRules(("x", "kafka"), subject_claim="client", scope_claim="scp")
    assert check_claims({**CLAIMS, "client": "app", "scp": ["c"], "aud": ["y", "kafka"]}, other, 1500) == (
        "app",
        2000,
        ("c",),
    )


@pytest.mark.parametrize(
    ("changes", "now_s", "problem"),
    [
        ({}, 2030, "has expired"),
        ({"exp": None}, 1500, "has no expiry"),
        ({"exp": "2000"}, 1500, "claim exp of the token is not a time"),
        ({"exp": True}, 1500, "claim exp of the token is not a time"),
        ({"exp": 1e300}, 1500, "claim exp of the token is not a time"),
        ({"exp": float("nan")}, 1500, "claim exp of the token is not a time"),
        ({"exp": -1}, 1500, "claim exp of the token is not a time"),
        ({"iat": None}, 1500, "no time of issue"),
        ({"nbf": 1531}, 1500, "not valid yet"),
        ({"aud": None}, 1500, "audience"),
        ({"aud": "other"}, 1500, "audience"),
        ({"aud": ["other", 7, ["kafka"]]}, 1500, "audience"),
        ({"iss": "other"}, 1500, "issuer"),
        ({"sub": None}, 1500, r"no subject \(claim sub\)"),
        ({"sub": " "}, 1500, "no subject"),
        ({"sub": 7}, 1500, "no subject"),
    ],
)
def test_refused_claims(changes: dict[str, object], now_s: float, problem: str):
    claims = {name: value for name, value in {**CLAIMS, **changes}.items() if value is not None}
    with pytest.raises(InvalidJwt, match=problem):
        check_claims(claims, RULES, now_s)


def test_clock_skew_extends_the_times():
    assert check_claims({**CLAIMS, "nbf": 1530}, RULES, 1500).subject == "alice"
    assert check_claims(CLAIMS, RULES, 2029).subject == "alice"


def test_token_with_audience_is_refused_where_none_is_expected():
    with pytest.raises(InvalidJwt, match="audience"):
        check_claims(CLAIMS, ClaimRules(), 1500)
    assert check_claims({name: CLAIMS[name] for name in ("sub", "exp", "iat")}, ClaimRules(), 1500).subject == "alice"


def test_expiry_of_a_token():
    assert jwt.expiry(jwt.unsecured({"exp": 20, "iat": 10}).reveal()) == 20
    assert jwt.expiry("opaque") is None


@pytest.mark.parametrize("document", [b"", b"[]", b"{}", b'{"keys":{}}', b"\xff"])
def test_malformed_key_set(document: bytes):
    with pytest.raises(InvalidJwt):
        jwt.parse_key_set(document)


def test_keys_that_do_not_verify_tokens_are_left_out():
    needs_cryptography()
    keys = [
        7,
        {"kty": "oct", "k": "AAAA"},
        {**RFC_RS256_KEY, "use": "enc"},
        {**RFC_ES256_KEY, "crv": "P-521"},
        {**RFC_ES256_KEY, "x": "AAAA"},
        {**RFC_RS256_KEY, "n": 7},
        {"kty": "RSA"},
        {"kty": ["RSA"]},
        {**RFC_RS256_KEY, "kid": "rsa"},
        {**RFC_ES256_KEY, "kid": 7},
    ]
    found = jwt.parse_key_set(json.dumps({"keys": keys}).encode())
    assert [key_id for key_id, _ in found] == ["rsa", None]
