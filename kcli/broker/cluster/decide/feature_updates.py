"""UpdateFeatures (KIP-584): finalized levels of features, which every broker must support."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.cluster.features import ELIGIBLE_LEADER_REPLICAS, KRAFT_VERSION, METADATA_VERSION, SUPPORTED_FEATURES
from kcli.broker.cluster.image import BROKER_CONFIG
from kcli.error_codes import ErrorCode
from kcli.errors import BrokerError
from kcli.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from kcli.protocol.metadata_records import ConfigRecord, FeatureLevelRecord

if TYPE_CHECKING:
    from kcli.broker.cluster.decide.draft import Draft
    from kcli.broker.cluster.image import MetadataImage
    from kcli.broker.config import BrokerConfig

_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3
_FIRST_WITH_TYPES = 1
_LAST_WITH_RESULTS = 1
_NO_ERROR = "NONE"  # the message of Apache Kafka for a feature without an error
_IN_SYNC = "min.insync.replicas"


def update_features(
    draft: Draft, config: BrokerConfig, request: UpdateFeaturesRequest, version: int
) -> UpdateFeaturesResponse:
    """Change all levels or none. BrokerError with the code that Kafka's controller returns."""
    image = draft.image
    for update in request.feature_updates:
        if version < _FIRST_WITH_TYPES:
            update.upgrade_type = _SAFE_DOWNGRADE if update.allow_downgrade else _UPGRADE
        fault = _fault(image, update)
        if fault is not None:
            raise BrokerError(ErrorCode.INVALID_UPDATE_VERSION, f"{update.feature} {update.max_version_level}: {fault}")
    if not request.validate_only:
        for update in request.feature_updates:
            if update.feature == ELIGIBLE_LEADER_REPLICAS and update.max_version_level > 0:
                _set_min_in_sync(draft, config)
            if update.feature != KRAFT_VERSION:
                draft.write(FeatureLevelRecord(name=update.feature, feature_level=update.max_version_level))
    response = UpdateFeaturesResponse(error_message=None)
    if version <= _LAST_WITH_RESULTS:
        response.results = [
            UpdatableFeatureResult(feature=update.feature, error_message=_NO_ERROR)
            for update in request.feature_updates
        ]
    return response


def _fault(image: MetadataImage, update: FeatureUpdateKey) -> str | None:
    """Return the reason why a feature cannot have this level; None if it can."""
    name, level = update.feature, update.max_version_level
    if update.upgrade_type not in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        return f"{update.upgrade_type} is not a type of upgrade"
    if name not in SUPPORTED_FEATURES:
        return "there is no such feature"
    supported = {f"broker {broker.node_id}": broker.features.get(name, (0, 0)) for broker in image.brokers.values()}
    for node, (lowest, highest) in {"the controller": SUPPORTED_FEATURES[name], **supported}.items():
        if level and not lowest <= level <= highest:
            return f"{node} supports {lowest} to {highest}" if highest else f"{node} does not support this feature"
    current = SUPPORTED_FEATURES[KRAFT_VERSION][1] if name == KRAFT_VERSION else image.features.get(name, 0)
    if level > current and update.upgrade_type != _UPGRADE:
        return f"the current level {current} is lower; this is an upgrade"
    if level < current and update.upgrade_type == _UPGRADE:
        return f"the current level {current} is higher; ask for a downgrade"
    if level < current and name in (METADATA_VERSION, KRAFT_VERSION):
        return f"the current level {current} is higher; this feature cannot be downgraded"
    return None


def _set_min_in_sync(draft: Draft, config: BrokerConfig) -> None:
    """Set min.insync.replicas of all brokers, and remove it from single ones: ELR needs one value for all (KIP-966)."""
    image = draft.image
    everywhere = image.configs.get((BROKER_CONFIG, ""), {})
    if _IN_SYNC not in everywhere:
        value = str(config.min_insync_replicas)
        draft.write(ConfigRecord(resource_type=BROKER_CONFIG, name=_IN_SYNC, value=value))
    for (kind, name), configs in image.configs.items():
        if kind == BROKER_CONFIG and name and _IN_SYNC in configs:
            draft.write(ConfigRecord(resource_type=BROKER_CONFIG, resource_name=name, name=_IN_SYNC, value=None))
