"""The order in which idle connections expire."""

from kcli.network.selector import IdleTimes


def test_activity_moves_a_connection_to_the_end_of_the_order() -> None:
    idle = IdleTimes(100)
    idle.touch("a", 0)
    idle.touch("b", 10)
    idle.touch("a", 20)
    assert idle.next_expiry_ms() == 110
    assert idle.take_expired(109) == []
    assert idle.take_expired(120) == ["b", "a"]
    assert idle.next_expiry_ms() is None


def test_a_removed_connection_does_not_expire() -> None:
    idle = IdleTimes(100)
    idle.touch("a", 0)
    idle.forget("a")
    assert idle.take_expired(1e9) == []


def test_iteration_starts_with_the_longest_idle() -> None:
    idle = IdleTimes(1000)
    for now_ms, id in enumerate(["a", "b", "a"]):
        idle.touch(id, now_ms)
    assert list(idle.by_age()) == [("b", 1), ("a", 2)]
