"""Stages for the stories: our controller and Apache's in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.broker.controller.quorum import Quorum, Scene
from tests.broker.controller.real_controller import RealScene, running_controller

MakeScene = Callable[..., Scene]


@pytest.fixture(scope="session")
def real_controller(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealScene]:
    """One controller of Apache Kafka for all stories of this process."""
    with running_controller(tmp_path_factory.mktemp("controller"), kafka_jars) as scene:
        yield scene


@pytest.fixture(params=["kcli", pytest.param("apache", marks=pytest.mark.real_kafka)])
def make_scene(request: pytest.FixtureRequest) -> MakeScene:
    """Return a function that makes an empty cluster, with ELR or without."""

    def make(*, elr: bool = True) -> Scene:
        if request.param == "kcli":
            return Quorum(elr=elr)
        scene: RealScene = request.getfixturevalue("real_controller")
        scene.clear(elr=elr)
        return scene

    return make
