"""Registration, sessions, fencing and controlled shutdown of brokers. The codes were seen with Kafka 4.3.1."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kcli.error_codes import ErrorCode
from kcli.protocol.messages.broker_registration import Feature
from kcli.protocol.metadata_records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from tests.broker.controller.conftest import MakeScene
from tests.broker.controller.quorum import METADATA_VERSION, SESSION_MS, Quorum, directory


def test_broker_registers_catches_up_and_is_unfenced(make_scene: MakeScene) -> None:
    quorum = make_scene()
    epoch = quorum.register(1).broker_epoch

    behind = quorum.beat(1, current_metadata_offset=epoch - 1)
    assert (behind.is_caught_up, behind.is_fenced) == (False, True)
    waiting = quorum.beat(1, want_fence=True)
    assert (waiting.is_caught_up, waiting.is_fenced) == (True, True)
    assert not quorum.beat(1).is_fenced
    assert quorum.broker(1).is_active


@pytest.mark.parametrize(
    ("fields", "version", "code"),
    [
        ({"cluster_id": "other"}, 4, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"log_dirs": []}, 4, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [UUID(int=1)]}, 4, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [directory(1)] * 2}, 4, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [directory(2)]}, 4, ErrorCode.INVALID_REGISTRATION),
        ({"features": []}, 4, ErrorCode.INVALID_REGISTRATION),
        ({"features": [Feature(name=METADATA_VERSION, max_supported_version=29)]}, 4, ErrorCode.UNSUPPORTED_VERSION),
        ({"features": [Feature(name=METADATA_VERSION, max_supported_version=30)]}, 4, ErrorCode.UNSUPPORTED_VERSION),
        ({"is_migrating_zk_broker": True}, 4, ErrorCode.BROKER_ID_NOT_REGISTERED),
        ({}, 0, ErrorCode.INVALID_REGISTRATION),
        ({}, 3, ErrorCode.NONE),
    ],
)
def test_registration_is_checked(make_scene: MakeScene, fields: dict[str, Any], version: int, code: ErrorCode) -> None:
    quorum = make_scene().start(2)
    assert quorum.register(1, version=version, **fields).error_code == code
    assert (1 in quorum.image.brokers) == (code == 0)


def test_a_feature_of_level_0_need_not_be_supported() -> None:
    quorum = Quorum(elr=False)
    features = [Feature(name=METADATA_VERSION, min_supported_version=7, max_supported_version=30)]
    assert quorum.register(1, features=features).error_code == 0


def test_second_process_with_the_same_id_waits_until_the_session_of_the_first_expires() -> None:
    quorum = Quorum().start(1)
    old_epoch = quorum.broker(1).epoch
    quorum.clock.advance(SESSION_MS - 1)
    assert quorum.register(1, incarnation=2).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION

    quorum.clock.advance(1)
    assert quorum.register(1, incarnation=2).broker_epoch > old_epoch
    assert quorum.beat(1, broker_epoch=old_epoch).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_same_process_that_registers_again_keeps_its_epoch_and_stays_unfenced(make_scene: MakeScene) -> None:
    quorum = make_scene().start(1)
    epoch = quorum.broker(1).epoch
    assert quorum.register(1, rack="r").broker_epoch == epoch
    assert quorum.broker(1).rack == "r"
    assert not quorum.broker(1).is_fenced


def test_heartbeat_of_an_unknown_broker_is_stale(make_scene: MakeScene) -> None:
    assert make_scene().beat_of(7).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_heartbeat_with_a_stale_epoch_does_not_extend_the_session() -> None:
    quorum = Quorum().start(1)
    quorum.clock.advance(SESSION_MS - 1)
    assert quorum.beat(1, broker_epoch=0).error_code == ErrorCode.STALE_BROKER_EPOCH
    quorum.clock.advance(1)
    quorum.tick()
    assert quorum.broker(1).is_fenced


def test_broker_without_heartbeats_is_fenced_when_its_session_expires() -> None:
    quorum = Quorum().start(1, 2)
    quorum.create("t", [1, 2])
    assert quorum.controller.next_due_ms() == 0  # a controller begins with a tick
    quorum.tick()
    assert quorum.next_due_ms == quorum.clock.now_ms() + SESSION_MS
    quorum.clock.advance(SESSION_MS - 1)
    quorum.beat(2)
    assert quorum.tick() == []

    quorum.clock.advance(1)
    election, fencing = quorum.tick()
    assert type(election) is PartitionChangeRecord
    assert fencing == BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=quorum.broker(1).epoch, fenced=1)
    state = quorum.partition("t")
    assert (state.leader, state.isr, state.leader_epoch, state.partition_epoch) == (2, (2,), 1, 1)
    assert quorum.tick() == []

    assert not quorum.beat(1).is_fenced  # it was only slow
    assert quorum.partition("t").leader == 2


def test_controlled_shutdown_moves_the_leaders_and_waits_for_the_other_brokers() -> None:
    quorum = Quorum().start(1, 2)
    quorum.create("t", [1, 2])
    first = quorum.beat(1, want_shut_down=True)
    assert (first.is_fenced, first.should_shut_down) == (False, False)
    shutdown, election = quorum.records
    assert shutdown.in_controlled_shutdown == 1
    assert (election.leader, election.isr) == (2, [2])
    end = len(quorum.log) - 1

    quorum.beat(2, current_metadata_offset=end - 1)
    assert not quorum.beat(1, want_shut_down=True).should_shut_down
    quorum.beat(2, current_metadata_offset=end)
    last = quorum.beat(1, want_shut_down=True)
    assert (last.is_fenced, last.should_shut_down) == (True, True)
    assert quorum.broker(1).is_fenced

    # The session goes on, so that the next process must wait.
    assert quorum.register(1, incarnation=2).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_broker_that_leads_nothing_may_shut_down_at_once(make_scene: MakeScene) -> None:
    quorum = make_scene().start(1, 2)
    quorum.create("t", [1, 2])
    assert quorum.beat(2, want_shut_down=True).should_shut_down
    assert quorum.partition("t").isr == (1,)


def test_fenced_broker_may_shut_down_at_once(make_scene: MakeScene) -> None:
    quorum = make_scene()
    quorum.register(1)
    assert quorum.beat(1, want_shut_down=True, want_fence=True).should_shut_down


def test_unfenced_broker_can_ask_to_be_fenced(make_scene: MakeScene) -> None:
    quorum = make_scene().start(1)
    assert quorum.beat(1, want_fence=True).is_fenced
    assert quorum.broker(1).is_fenced


def test_restarted_controller_has_its_image_from_the_log_and_gives_brokers_a_new_session() -> None:
    quorum = Quorum().start(1, 2)
    quorum.create("t", [1, 2])
    before = quorum.partition("t"), quorum.broker(1)
    quorum.clock.advance(SESSION_MS + 1)
    quorum.restart()
    assert (quorum.partition("t"), quorum.broker(1)) == before

    assert quorum.tick() == []
    quorum.clock.advance(SESSION_MS - 1)
    assert not quorum.beat(1).is_fenced  # no new registration is needed
    quorum.clock.advance(1)
    quorum.tick()
    assert not quorum.broker(1).is_fenced
    assert quorum.broker(2).is_fenced


def test_restarted_controller_fences_the_broker_of_its_own_process_which_registers_at_once() -> None:
    quorum = Quorum(node_id=1).start(1, 2)
    quorum.restart()
    quorum.tick()
    assert (quorum.broker(1).is_fenced, quorum.broker(2).is_fenced) == (True, False)
    assert not quorum.register(1, incarnation=2).error_code


def test_epoch_is_the_next_offset_even_if_cleaning_up_comes_before_the_registration() -> None:
    quorum = Quorum().start(1, 2)
    quorum.create("t", [1, 2])
    quorum.clock.advance(SESSION_MS)
    quorum.beat(2)
    next_offset = len(quorum.log)
    assert quorum.register(1, incarnation=2).broker_epoch == next_offset
    election, registered = quorum.records
    assert type(election) is PartitionChangeRecord
    assert type(registered) is RegisterBrokerRecord
    assert not quorum.beat(1, current_metadata_offset=next_offset, want_fence=True).is_caught_up
    assert quorum.beat(1, current_metadata_offset=next_offset + 1, want_fence=True).is_caught_up


def test_offline_log_directory_takes_its_replicas_out_of_the_isr(make_scene: MakeScene) -> None:
    quorum = make_scene().start(1, log_dirs=[directory(1), directory(1, 1)]).start(2)
    quorum.create("t", [1, 2])
    assert quorum.partition("t").directories == (UUID(int=1), directory(2))
    quorum.assign(1, directory(1, 1), "t", 0)
    assert quorum.partition("t").directories == (directory(1, 1), directory(2))

    quorum.beat(1, offline_log_dirs=[directory(1)])
    assert quorum.partition("t").isr == (1, 2)
    assert quorum.broker(1).log_dirs == (directory(1, 1),)
    quorum.beat(1, offline_log_dirs=[directory(1, 1)])
    assert (quorum.partition("t").leader, quorum.partition("t").isr) == (2, (2,))


def test_cordoned_directories_are_noted_once(make_scene: MakeScene) -> None:
    quorum = make_scene().start(1)
    quorum.beat(1, cordoned_log_dirs=[directory(1)])
    assert quorum.broker(1).cordoned_log_dirs == (directory(1),)
    quorum.beat(1, cordoned_log_dirs=[directory(1)])
    assert quorum.create("t", partitions=1).error_code == ErrorCode.INVALID_REPLICATION_FACTOR
