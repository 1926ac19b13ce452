"""Random member ids, as in real groups: Kafka's sticky assignors depend on their hash codes, and so do ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from tests.assignors.cases import Case, make_cases
from tests.interop.assignors.compare import answer, ask
from tests.interop.assignors.oracle import Oracle

MADE, ALIKE_AT_LEAST = 800, 0.985


@pytest.fixture(scope="module")
def oracle(kafka_jars: Path) -> Iterator[Oracle]:
    with Oracle(kafka_jars) as running:
        yield running


def with_random_ids(case: Case, random: Random) -> Case:
    """Return ids as coordinators make them: the client id, a hyphen, a UUID."""
    return Case(case.topics, [it._replace(id=f"app-{UUID(int=random.getrandbits(128))}") for it in case.members])


def test_among_equal_subscriptions_the_same_member_keeps_one_more(oracle: Oracle) -> None:
    """By the order of ids alone one in fifty would differ; the other differences are ids that share a bucket."""
    random = Random(3)
    alike = [it for it in make_cases(MADE, seed=9) if len({member.topics for member in it.members}) == 1]
    cases = [with_random_ids(case, random) for case in alike]
    assert len(cases) > MADE / 2
    same = sum(answer(case) == kafkas for case, kafkas in zip(cases, ask(oracle, cases), strict=True))
    assert same >= len(cases) * ALIKE_AT_LEAST, (same, len(cases))
