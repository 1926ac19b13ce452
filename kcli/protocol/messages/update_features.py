"""UpdateFeatures (57): raise or lower the finalized level of features (KIP-584)."""

from kcli.protocol.wire import *


@struct
class FeatureUpdateKey:
    """The new level of a feature; 0 removes it. `upgrade_type`: 1 upgrade, 2 safe and 3 unsafe downgrade."""

    feature: String = ""
    max_version_level: Int16 = 0
    allow_downgrade: Bool = since(until=0, default=False)
    upgrade_type: Int8 = since(1, default=1)


@message(key=57, versions="0-2", flexible="0+")
class UpdateFeaturesRequest(Request["UpdateFeaturesResponse"]):
    """Ask the controller to change levels."""

    timeout_ms: Int32 = 60000
    feature_updates: Array[FeatureUpdateKey] = []
    validate_only: Bool = since(1, default=False)


@struct
class UpdatableFeatureResult:
    """The outcome for a feature."""

    feature: String = ""
    error_code: Int16 = 0
    error_message: NullableString = ""


@message(key=57, versions="0-2", flexible="0+")
class UpdateFeaturesResponse(Message):
    """The outcome; v2 has no outcomes by feature."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = ""
    results: Array[UpdatableFeatureResult] = since(until=1, default=[], ignorable=True)
