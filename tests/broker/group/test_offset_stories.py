"""The stories of offsets on our store, on our broker and on Apache's: same outcome, same answers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.broker.group.offsets_labs import OffsetsDirectLab, OffsetsNotebook, OffsetsSocketLab
from tests.broker.group.stories_offsets import STORIES
from tests.real_kafka import Kafka

pytestmark = pytest.mark.slow

Story = Callable[[OffsetsNotebook], None]
every_story = pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)


@every_story
def test_on_our_store(story: Story) -> None:
    story(OffsetsNotebook(OffsetsDirectLab()))


@every_story
def test_a_broker_answers_as_our_store_does(story: Story, any_kafka: Kafka) -> None:
    ours = OffsetsNotebook(OffsetsDirectLab())
    story(ours)

    lab = OffsetsSocketLab(any_kafka.bootstrap_servers)
    theirs = OffsetsNotebook(lab)
    try:
        story(theirs)
    finally:
        lab.close()

    assert theirs.pages == ours.pages
