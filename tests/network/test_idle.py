"""The order in which quiet connections expire."""

from kcli.network.idle import IdleTimes


def test_activity_makes_a_connection_the_youngest() -> None:
    idle = IdleTimes(100)
    idle.touch("a", 0)
    idle.touch("b", 10)
    idle.touch("a", 20)
    assert idle.next_expiry_ms() == 110
    assert idle.take_expired(109) == []
    assert idle.take_expired(120) == ["b", "a"]
    assert idle.next_expiry_ms() is None


def test_a_forgotten_connection_never_expires() -> None:
    idle = IdleTimes(100)
    idle.touch("a", 0)
    idle.forget("a")
    assert idle.take_expired(1e9) == []
