"""The order in which quiet connections expire."""

from kcli.network.selector import IdleTimes


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


def test_ages_are_told_quietest_first() -> None:
    idle = IdleTimes(1000)
    for now_ms, id in enumerate(["a", "b", "a"]):
        idle.touch(id, now_ms)
    assert list(idle.by_age()) == [("b", 1), ("a", 2)]
