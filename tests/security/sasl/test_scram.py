"""SASL SCRAM: recorded exchanges of RFC 7677 and of Apache Kafka, and hostile sides of the exchange."""

import base64
import hashlib
from typing import NamedTuple

import pytest

from kcli.errors import AuthenticationError
from kcli.security.sasl import scram
from kcli.security.sasl.scram import ScramClient, ScramCredential, salted_credential, scram_credential, scram_server
from tests.security.sasl.exchanges import login, run_exchange

BOTH = pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])


class Recorded(NamedTuple):
    """A recorded exchange: the login, the client's nonce, and all messages."""

    mechanism: str
    options: dict[str, str]
    nonce: str
    messages: list[bytes]


ALICE = {"username": "alice", "password": "alice-secret"}
RECORDED = {
    "RFC 7677, section 3": Recorded(
        "SCRAM-SHA-256",
        {"username": "user", "password": "pencil"},
        "rOprNGfwEbeRWgbNEkqO",
        [
            b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
            b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
            b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
            b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
        ],
    ),
    # The server's messages of the others were recorded from Apache Kafka 4.3.1.
    "a user of SCRAM-SHA-512": Recorded(
        "SCRAM-SHA-512",
        ALICE,
        "kcliGoldenNonce",
        [
            b"n,,n=alice,r=kcliGoldenNonce",
            b"r=kcliGoldenNonce2hpjvnt4lynxy6vzhgdadwqcz,s=MXRuaGQ1amFtNHRwZW1peW9nZWdoYWdvZg==,i=4096",
            b"c=biws,r=kcliGoldenNonce2hpjvnt4lynxy6vzhgdadwqcz,"
            b"p=BH3qCcN8l5PJ7sdhdp2fEU6BAaiQIg8lQcH/pInB5Tn67Q9ouaJpL4LpD304nISI7Q+We+x38jWRsvbfYkCy3A==",
            b"v=nhPY61p3E+vj4VLGnSFEiF8ZZ8KXqvRZpuiqudq6MPdF1RmzFL6+kuX+THRFCWi/DcRtSBrdu1emqW1sJSYz6Q==",
        ],
    ),
    "a user of SCRAM-SHA-256": Recorded(
        "SCRAM-SHA-256",
        ALICE,
        "kcliGoldenNonce",
        [
            b"n,,n=alice,r=kcliGoldenNonce",
            b"r=kcliGoldenNonce14m5oeo8b0zcr4sx6mq36t6nrc,s=MmlsYmE0Z3V0bXIxYzBnb2tveWFnbGhlNQ==,i=4096",
            b"c=biws,r=kcliGoldenNonce14m5oeo8b0zcr4sx6mq36t6nrc,p=etuU9yAVpW2ccS+65XJmlBB4ALdakYQsK+x0JSC5Gpw=",
            b"v=xKk8+sqoZe+IoFY6Q5q5YS7rhXuenjOdANDuoWnUIW8=",
        ],
    ),
    "a delegation token": Recorded(
        "SCRAM-SHA-256",
        {
            "username": "qGjoCRS7TtK7JG1ULCxsYg",
            "password": "t1JTf5RgFLzT+3PhU+ggCQdjU6jB0hqJRFeKAYNdAjSu5gXmIBWIyID/4PxSrVQS6J/Gd2QxtylQFvFP+B7uaw==",
            "tokenauth": "true",
        },
        "kcliGoldenNonce",
        [
            b"n,,n=qGjoCRS7TtK7JG1ULCxsYg,r=kcliGoldenNonce,tokenauth=true",
            b"r=kcliGoldenNonce7ngmipxzamic089xl3y0796ea,s=a3liZDVrZm5vdHFud3NoZjBjMmc2c2Ewdw==,i=4096",
            b"c=biws,r=kcliGoldenNonce7ngmipxzamic089xl3y0796ea,p=Rm3hLsEI55NBaI6JjunbxgfSYIifvz0O9TcYsa3o4mw=",
            b"v=WqCrjiKwIkl1og3hJeKTZcHVorb+bWDCwsVzJPU00FM=",
        ],
    ),
}


def client(mechanism: str = "SCRAM-SHA-256", password: str = "pencil", user: str = "user", **options: str):
    return ScramClient(mechanism, login(username=user, password=password, **options)).start("kafka")


def server(mechanism: str = "SCRAM-SHA-256", password: str = "pencil", iterations: int = 4096):
    credential = scram_credential(mechanism, password, iterations)
    return scram_server(mechanism, lambda user, is_token: credential if user == "user" and not is_token else None)


@pytest.mark.parametrize("recorded", RECORDED.values(), ids=list(RECORDED))
def test_client_repeats_a_recorded_exchange(recorded: Recorded, monkeypatch):
    monkeypatch.setattr(scram, "_nonce", lambda: recorded.nonce)
    exchange = ScramClient(recorded.mechanism, login(**recorded.options)).start("kafka")
    assert [next(exchange), exchange.send(recorded.messages[1])] == recorded.messages[0::2]
    with pytest.raises(StopIteration):
        exchange.send(recorded.messages[3])


@pytest.mark.parametrize("recorded", RECORDED.values(), ids=list(RECORDED))
def test_server_repeats_a_recorded_exchange(recorded: Recorded, monkeypatch):
    first = recorded.messages[1].decode()
    nonce, salt, _ = (attribute.partition("=")[2] for attribute in first.split(","))
    monkeypatch.setattr(scram, "_nonce", lambda: nonce.removeprefix(recorded.nonce))
    options = recorded.options
    credential = scram_credential(recorded.mechanism, options["password"], salt=base64.b64decode(salt))
    exchange = scram_server(recorded.mechanism, lambda *_: credential)
    next(exchange)
    assert exchange.send(recorded.messages[0]) == recorded.messages[1]
    with pytest.raises(StopIteration) as end:
        exchange.send(recorded.messages[2])
    assert end.value.value == (options["username"], recorded.messages[3], None, False)


@BOTH
def test_right_password(mechanism: str):
    identity, messages = run_exchange(client(mechanism), server(mechanism))
    assert identity.name == "user"
    assert [message[:2] for message in messages] == [b"n,", b"r=", b"c=", b"v="]
    assert not any(b"pencil" in message for message in messages)


def test_second_connection_with_the_same_salt_has_another_nonce():
    credential = scram_credential("SCRAM-SHA-256", "pencil")
    mechanism = ScramClient("SCRAM-SHA-256", login(username="user", password="pencil"))
    first, second = (
        run_exchange(mechanism.start("kafka"), scram_server("SCRAM-SHA-256", lambda *_: credential))[1]
        for _ in range(2)
    )
    assert first[0] != second[0]
    assert first[2] != second[2]


def test_names_are_escaped():
    credential = scram_credential("SCRAM-SHA-256", "pencil")
    asked = []

    def lookup(user: str, is_token: bool) -> ScramCredential:
        asked.append((user, is_token))
        return credential

    identity, messages = run_exchange(client(user="a,b=c=2C"), scram_server("SCRAM-SHA-256", lookup))
    assert messages[0].startswith(b"n,,n=a=2Cb=3Dc=3D2C,r=")
    assert asked == [("a,b=c=2C", False)]
    assert identity.name == "a,b=c=2C"


def test_delegation_token_authenticates_its_owner():
    credential = scram_credential("SCRAM-SHA-512", "aG1hYw==")._replace(owner="alice", expires_at_wall_ms=99)
    asked = []

    def lookup(user: str, is_token: bool) -> ScramCredential:
        asked.append((user, is_token))
        return credential

    exchange = client("SCRAM-SHA-512", "aG1hYw==", "token-id", tokenauth="TRUE")
    identity, messages = run_exchange(exchange, scram_server("SCRAM-SHA-512", lookup))
    assert messages[0].endswith(b",tokenauth=true")
    assert asked == [("token-id", True)]
    assert (identity.name, identity.expires_at_wall_ms, identity.by_token) == ("alice", 99, True)


@BOTH
def test_wrong_password_and_unknown_user_get_the_same_answer(mechanism: str):
    expected = f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
    with pytest.raises(AuthenticationError) as wrong:
        run_exchange(client(mechanism, "swordfish"), server(mechanism))
    with pytest.raises(AuthenticationError) as unknown:
        run_exchange(client(mechanism, user="bob"), server(mechanism))
    assert (str(wrong.value), str(unknown.value)) == (expected, expected)


def test_server_that_does_not_know_the_password_is_refused():
    def impostor():
        first = (yield b"").decode()
        nonce = first.rpartition("r=")[2]
        yield f"r={nonce}xyz,s=c2FsdA==,i=4096".encode()
        return scram.Identity("user", b"v=" + base64.b64encode(bytes(32)))

    with pytest.raises(AuthenticationError, match="signature is wrong, so it does not know the password"):
        run_exchange(client(), impostor())


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("r={nonce}x,s=c2FsdA==,i=4095", "asks for 4095 iterations; kcli accepts 4096 to 262144"),
        ("r={nonce}x,s=c2FsdA==,i=262145", "asks for 262145 iterations"),
        ("r={nonce}x,s=c2FsdA==,i=99999999999999999999", "asks for 999999999999 iterations"),
        ("r={nonce}x,s=c2FsdA==,i=-4096", "asks for -4096 iterations"),
        ("r={nonce}x,s=c2FsdA==,i=x", "asks for x iterations"),
        ("r={nonce},s=c2FsdA==,i=4096", "nonce does not extend the client's"),
        ("r=other,s=c2FsdA==,i=4096", "nonce does not extend the client's"),
        ("r={nonce}x,s=?,i=4096", "first answer is malformed"),
        ("m=ext,r={nonce}x,s=c2FsdA==,i=4096", "first answer is malformed"),
        ("s=c2FsdA==,r={nonce}x,i=4096", "first answer is malformed"),
        ("r={nonce}x,s=c2FsdA==", "first answer is malformed"),
        ("", "first answer is malformed"),
        ("é", "first answer is malformed"),
        ("r={nonce}\x1b[2J,s=c2FsdA==,i=4096", "first answer is malformed"),
        ("r={nonce}" + "x" * 20_000 + ",s=c2FsdA==,i=4096", "first answer is malformed"),
    ],
)
def test_client_refuses_a_first_answer_at_once(answer: str, problem: str, monkeypatch):
    monkeypatch.setattr(hashlib, "pbkdf2_hmac", None)  # nothing is computed
    exchange = client(password="swordfish")
    nonce = next(exchange).decode().rpartition("r=")[2]
    with pytest.raises(AuthenticationError) as refused:
        exchange.send(answer.format(nonce=nonce).encode())
    assert str(refused.value).startswith("SASL SCRAM-SHA-256: the broker")
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"e=other-error", "the broker refused the credentials: other-error"),
        (b"", "last answer is malformed"),
        (b"v=", "last answer is malformed"),
        (b"v=?", "last answer is malformed"),
        (b"v=AAAA", "signature is wrong"),
        (b"\xff", "last answer is malformed"),
    ],
)
def test_client_refuses_a_last_answer(answer: bytes, problem: str):
    exchange = client()
    nonce = next(exchange).decode().rpartition("r=")[2]
    exchange.send(f"r={nonce}x,s=c2FsdA==,i=4096".encode())
    with pytest.raises(AuthenticationError, match=problem):
        exchange.send(answer)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"y,,n=user,r=abc",
        b"p=tls-unique,,n=user,r=abc",
        b"n,n=user,r=abc",
        b"n,b=user,n=user,r=abc",
        b"n,,n=us=er,r=abc",
        b"n,,n=,r=abc",
        b"n,,r=abc,n=user",
        b"n,,m=ext,n=user,r=abc",
        b"n,,n=user",
        b"n,,n=user,r=",
        b"n,,n=user,r=abc,novalue",
        b"n,,n=user,r=\xc3\xa9",
        b"n,,n=user,r=" + b"x" * 20_000,
    ],
)
def test_server_refuses_a_malformed_first_message(message: bytes):
    exchange = server()
    next(exchange)
    with pytest.raises(AuthenticationError, match=r"due to invalid credentials with SASL mechanism SCRAM-SHA-256$"):
        exchange.send(message)


def test_server_refuses_another_authorization_id():
    exchange = server()
    next(exchange)
    with pytest.raises(AuthenticationError, match="authorization id that is different from username"):
        exchange.send(b"n,a=admin,n=user,r=abc")


def test_server_accepts_the_own_name_as_authorization_id():
    exchange = server()
    next(exchange)
    assert exchange.send(b"n,a=user,n=user,r=abc").startswith(b"r=abc")


@pytest.mark.parametrize(
    "change",
    [
        lambda m: b"",
        lambda m: m.replace(b"c=biws", b"c=eSws"),
        lambda m: m.replace(b",r=", b",r=x"),
        lambda m: m.rpartition(b",p=")[0],
        lambda m: m.rpartition(b",p=")[0] + b",p=AAAA",
        lambda m: m.rpartition(b",p=")[0] + b",p=?",
        lambda m: m + b",x=y",
    ],
)
def test_server_refuses_a_changed_last_message(change):
    exchange, user = server(), client()
    next(exchange)
    last = user.send(exchange.send(next(user)))
    with pytest.raises(AuthenticationError, match="due to invalid credentials"):
        exchange.send(change(last))


def test_credential_of_a_salted_password_equals_that_of_the_password():
    salted = hashlib.pbkdf2_hmac("sha512", b"pencil", b"salt", 8192)
    assert salted_credential("SCRAM-SHA-512", salted, b"salt", 8192) == scram_credential(
        "SCRAM-SHA-512", "pencil", 8192, b"salt"
    )


def test_repr_of_a_credential_hides_its_keys():
    assert repr(scram_credential("SCRAM-SHA-256", "pencil")) == "<ScramCredential iterations=4096>"
