"""The stories, on the coordinator itself and on whole brokers; all fields of all answers are compared with Kafka's."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.broker.group import stories_members, stories_rounds, stories_settings
from tests.broker.group.lab import DirectLab, Notebook, SocketLab
from tests.real_kafka import Kafka, OwnBroker
from tests.slowness import wait_for_a_quiet_moment

pytestmark = pytest.mark.slow

Story = Callable[[Notebook], None]
STORIES: list[Story] = [*stories_rounds.STORIES, *stories_members.STORIES]
# Between what a story does or sees and the end of a session or a round, one way or the other, is half a second or more.
MARGIN_S = 0.5
REPEATS = 4
SETTINGS = {"group.max.size": "2", "group.initial.rebalance.delay.ms": "1000"}

each_story = pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)


def told_by(story: Story, lab: DirectLab | SocketLab) -> list[object]:
    notebook = Notebook(lab)
    story(notebook)
    return notebook.pages


def tells_as_much(story: Story, new_lab: Callable[[], SocketLab], expected: list[object]) -> None:
    """Told again, at a quieter moment, where time played a part and went by faster than the story bears."""
    for _ in range(REPEATS):
        lab = new_lab()
        try:
            assert told_by(story, lab) == expected
        except AssertionError:
            if lab.late_s < MARGIN_S or "pause" not in story.__code__.co_names:
                raise
            wait_for_a_quiet_moment()
        else:
            return
    assert told_by(story, new_lab()) == expected


@pytest.fixture
def sockets() -> Iterator[Callable[[str], SocketLab]]:
    labs: list[SocketLab] = []

    def connect_to(address: str) -> SocketLab:
        labs.append(SocketLab(address))
        return labs[-1]

    yield connect_to
    for lab in labs:
        lab.close()


@each_story
def test_coordinator(story: Story) -> None:
    assert told_by(story, DirectLab())


@each_story
def test_every_answer_of_a_broker_is_the_coordinators(
    story: Story, any_kafka: Kafka, sockets: Callable[[str], SocketLab]
) -> None:
    tells_as_much(story, lambda: sockets(any_kafka.bootstrap_servers), told_by(story, DirectLab()))


@pytest.mark.parametrize("story", stories_settings.STORIES, ids=lambda story: story.__name__)
def test_coordinator_with_settings(story: Story) -> None:
    assert told_by(story, DirectLab(**SETTINGS))


def test_every_answer_of_a_broker_with_settings_is_the_coordinators(
    any_own_kafka: Callable[..., OwnBroker], sockets: Callable[[str], SocketLab]
) -> None:
    broker = any_own_kafka(**SETTINGS)
    for story in stories_settings.STORIES:
        tells_as_much(story, lambda: sockets(broker.bootstrap_servers), told_by(story, DirectLab(**SETTINGS)))
