"""BrokerRegistration (62): a broker that starts introduces itself to the controller (KIP-631)."""

from kcli.protocol.wire import *


@struct
class Listener:
    """An advertised listener. `security_protocol`: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""

    name: String = ""
    host: String = ""
    port: UInt16 = 0
    security_protocol: Int16 = 0


@struct
class Feature:
    """A feature, and the range of levels that the broker supports."""

    name: String = ""
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


@message(key=62, versions="0-4", flexible="0+")
class BrokerRegistrationRequest(Request["BrokerRegistrationResponse"]):
    """A starting broker. v2 log directories, v3 the broker epoch of its last clean shutdown (KIP-966).

    `incarnation_id` is random in each start of the process.
    """

    broker_id: Int32 = 0
    cluster_id: String = ""
    incarnation_id: Uuid = since(default_factory=zero_uuid)
    listeners: Array[Listener] = []
    features: Array[Feature] = []
    rack: NullableString = ""
    is_migrating_zk_broker: Bool = since(1, default=False)
    log_dirs: Array[Uuid] = since(2, default=[], ignorable=True)
    previous_broker_epoch: Int64 = since(3, default=-1, ignorable=True)


@message(key=62, versions="0-4", flexible="0+")
class BrokerRegistrationResponse(Message):
    """The epoch of the registration, which the broker sends in its later requests."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    broker_epoch: Int64 = -1
