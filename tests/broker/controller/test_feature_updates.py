"""Levels of features, and what switching on ELR does to the settings."""

from __future__ import annotations

import pytest

from kcli.error_codes import ErrorCode
from kcli.protocol.messages.broker_registration import Feature
from kcli.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kcli.protocol.metadata_records import ConfigRecord, FeatureLevelRecord
from tests.broker.controller.quorum import ELR, METADATA_VERSION, Quorum

UPGRADE, SAFE, UNSAFE = 1, 2, 3


def update(
    quorum: Quorum, feature: str, level: int, kind: int = UPGRADE, *, version: int = 2, validate_only: bool = False
) -> int:
    key = FeatureUpdateKey(feature=feature, max_version_level=level)
    if version:
        key.upgrade_type = kind
    else:
        key.allow_downgrade = kind != UPGRADE
    return quorum.send(UpdateFeaturesRequest(feature_updates=[key], validate_only=validate_only), version).error_code


def test_elr_is_switched_on_with_one_minimum_for_all_brokers() -> None:
    quorum = Quorum(elr=False, min_insync_replicas=2).start(1)
    quorum.append([ConfigRecord(resource_type=4, resource_name="1", name="min.insync.replicas", value="3")])
    assert update(quorum, ELR, 1, validate_only=True) == 0
    assert quorum.records == []
    assert update(quorum, ELR, 1) == 0
    assert quorum.records == [
        ConfigRecord(resource_type=4, name="min.insync.replicas", value="2"),
        ConfigRecord(resource_type=4, resource_name="1", name="min.insync.replicas", value=None),
        FeatureLevelRecord(name=ELR, feature_level=1),
    ]
    assert update(quorum, ELR, 0) == ErrorCode.INVALID_UPDATE_VERSION
    assert update(quorum, ELR, 0, SAFE) == 0
    assert ELR not in quorum.controller.image.features


@pytest.mark.parametrize(
    ("feature", "level", "kind"),
    [
        ("no.such", 1, UPGRADE),
        (ELR, 2, UPGRADE),
        (ELR, -1, SAFE),
        (ELR, 1, 7),
        ("group.version", 1, SAFE),
        ("group.version", 1, UPGRADE),  # the broker does not support it
        (METADATA_VERSION, 29, UNSAFE),
        (METADATA_VERSION, 31, UPGRADE),
        ("kraft.version", 0, SAFE),
    ],
)
def test_invalid_level_is_refused(feature: str, level: int, kind: int) -> None:
    features = [Feature(name=METADATA_VERSION, min_supported_version=7, max_supported_version=30)]
    features.append(Feature(name=ELR, max_supported_version=1))
    quorum = Quorum().start(1, features=features)
    assert update(quorum, feature, level, kind) == ErrorCode.INVALID_UPDATE_VERSION
    assert quorum.records == []


def test_level_that_all_brokers_support_is_set_in_every_version_of_the_request() -> None:
    for version in range(3):
        quorum = Quorum().start(1)
        assert update(quorum, "group.version", 1, version=version) == 0
        assert quorum.controller.image.features["group.version"] == 1
        assert update(quorum, "group.version", 0, SAFE, version=version) == 0
