"""The error codes of brokers, numbered as in Apache Kafka 4.3.1. Ground: imports nothing of kcli."""


def fail(number: int, text: str) -> "ErrorCode":
    """A code that is not retriable."""
    return _row(number, text, retriable=False, refresh_metadata=False)


def retry(number: int, text: str) -> "ErrorCode":
    """A code after which the same request may succeed later."""
    return _row(number, text, retriable=True, refresh_metadata=False)


def refresh(number: int, text: str) -> "ErrorCode":
    """A code after which the same request may succeed with fresh metadata."""
    return _row(number, text, retriable=True, refresh_metadata=True)


def _row(number: int, text: str, retriable: bool, refresh_metadata: bool) -> "ErrorCode":
    """A row of the table, from which `_make` makes the code when the class is complete."""
    return number, text, retriable, refresh_metadata  # type: ignore[return-value]


class ErrorCode(int):
    """A code, whether it is `retriable`, whether the client must `refresh_metadata`, and a `text` for the user.

    Used like an IntEnum: `ErrorCode.NONE`, `ErrorCode(0)`, `.name`, compared with `is` or as the number. Not an
    IntEnum, because the definition of one of this size adds 4 ms to each start (this one: 0.4 ms).
    """

    name: str
    retriable: bool
    refresh_metadata: bool
    text: str

    def __new__(cls, number: int) -> "ErrorCode":
        """Return the code with this number. Raise ValueError for a number that is not in the table."""
        try:
            return _by_number[number]
        except KeyError:
            raise ValueError(f"{number} is not an error code of Kafka 4.3.1") from None

    @classmethod
    def of(cls, number: int) -> "ErrorCode":
        """Return the code with this number; UNKNOWN_SERVER_ERROR for a number newer than this table."""
        return _by_number.get(number, cls.UNKNOWN_SERVER_ERROR)

    @classmethod
    def all(cls) -> tuple["ErrorCode", ...]:
        """Return all codes, sorted by number."""
        return tuple(_by_number.values())

    @property
    def value(self) -> int:
        """The bare number."""
        return int(self)

    def __repr__(self) -> str:
        return f"<ErrorCode.{self.name}: {int(self)}>"

    def __str__(self) -> str:
        return int.__repr__(self)

    UNKNOWN_SERVER_ERROR = fail(-1, "the broker failed unexpectedly; see its log")
    NONE = fail(0, "no error")
    OFFSET_OUT_OF_RANGE = fail(1, "the offset is below the start or beyond the end of the partition's log")
    CORRUPT_MESSAGE = retry(2, "the batch fails its checksum, is too large, or has no key but the topic is compacted")
    UNKNOWN_TOPIC_OR_PARTITION = refresh(3, "the broker has no such topic or partition")
    INVALID_FETCH_SIZE = fail(4, "the broker does not accept this fetch size")
    LEADER_NOT_AVAILABLE = refresh(5, "the partition has no leader at the moment; one is being elected")
    NOT_LEADER_OR_FOLLOWER = refresh(6, "the broker no longer leads or holds this partition")
    REQUEST_TIMED_OUT = retry(7, "the broker could not finish within the timeout of the request")
    BROKER_NOT_AVAILABLE = fail(8, "that broker is not running")
    REPLICA_NOT_AVAILABLE = refresh(9, "the requested replica is not available")
    MESSAGE_TOO_LARGE = fail(10, "the batch is larger than the topic's max.message.bytes")
    STALE_CONTROLLER_EPOCH = fail(11, "another broker became controller after this request was made")
    OFFSET_METADATA_TOO_LARGE = fail(12, "the metadata of the committed offset is too long")
    NETWORK_EXCEPTION = refresh(13, "the broker lost a connection of its own before it could respond")
    COORDINATOR_LOAD_IN_PROGRESS = retry(14, "the coordinator is loading its state and cannot respond yet")
    COORDINATOR_NOT_AVAILABLE = retry(15, "no coordinator is available yet; its internal topic may have no leader")
    NOT_COORDINATOR = retry(16, "this broker does not coordinate that group or transaction")
    INVALID_TOPIC_EXCEPTION = fail(17, "the topic name is not legal, or the operation may not touch an internal topic")
    RECORD_LIST_TOO_LARGE = fail(18, "the batch is larger than a log segment of the topic")
    NOT_ENOUGH_REPLICAS = retry(19, "too few replicas are in sync for min.insync.replicas; nothing was written")
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = retry(20, "written, but too few replicas are in sync for min.insync.replicas")
    INVALID_REQUIRED_ACKS = fail(21, "acks must be 0, 1 or -1")
    ILLEGAL_GENERATION = fail(22, "the group has a newer generation than the one in the request")
    INCONSISTENT_GROUP_PROTOCOL = fail(23, "this member has no assignor in common with all other members")
    INVALID_GROUP_ID = fail(24, "the group id is empty or not legal")
    UNKNOWN_MEMBER_ID = fail(25, "the coordinator has no member with this id in the group")
    INVALID_SESSION_TIMEOUT = fail(26, "the session timeout lies outside the range that the broker allows")
    REBALANCE_IN_PROGRESS = fail(27, "the group is rebalancing and its members must join again")
    INVALID_COMMIT_OFFSET_SIZE = fail(28, "the offset could not be stored because its record would be too large")
    TOPIC_AUTHORIZATION_FAILED = fail(29, "the principal may not do this to the topic")
    GROUP_AUTHORIZATION_FAILED = fail(30, "the principal may not do this to the group")
    CLUSTER_AUTHORIZATION_FAILED = fail(31, "the principal may not do this to the cluster")
    INVALID_TIMESTAMP = fail(32, "a record's timestamp is further from now than the topic allows")
    UNSUPPORTED_SASL_MECHANISM = fail(33, "the broker has not enabled this SASL mechanism")
    ILLEGAL_SASL_STATE = fail(34, "the request is not valid at this point of the SASL exchange")
    UNSUPPORTED_VERSION = fail(35, "the broker does not speak this version of the API")
    TOPIC_ALREADY_EXISTS = fail(36, "a topic with this name exists already")
    INVALID_PARTITIONS = fail(37, "the number of partitions is not possible")
    INVALID_REPLICATION_FACTOR = fail(38, "the replication factor is below one or above the number of brokers")
    INVALID_REPLICA_ASSIGNMENT = fail(39, "the replicas named for the partitions do not fit the topic or the cluster")
    INVALID_CONFIG = fail(40, "a configuration key or value is not valid")
    NOT_CONTROLLER = retry(41, "this broker is not the controller")
    INVALID_REQUEST = fail(42, "the request contradicts itself or is not for this broker")
    UNSUPPORTED_FOR_MESSAGE_FORMAT = fail(43, "the topic's record format is too old for this request")
    POLICY_VIOLATION = fail(44, "a policy of the cluster forbids this")
    OUT_OF_ORDER_SEQUENCE_NUMBER = fail(45, "a batch of this producer before this one is missing")
    DUPLICATE_SEQUENCE_NUMBER = fail(46, "this batch was written already")
    INVALID_PRODUCER_EPOCH = fail(47, "the producer's epoch is older than the one the broker knows")
    INVALID_TXN_STATE = fail(48, "the transaction is not in a state that allows this")
    INVALID_PRODUCER_ID_MAPPING = fail(49, "the producer id does not belong to this transactional id")
    INVALID_TRANSACTION_TIMEOUT = fail(50, "the transaction timeout is above the broker's transaction.max.timeout.ms")
    CONCURRENT_TRANSACTIONS = retry(51, "the previous operation on this transaction has not ended yet")
    TRANSACTION_COORDINATOR_FENCED = fail(52, "another coordinator has taken over this transaction")
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = fail(53, "the principal may not use this transactional id")
    SECURITY_DISABLED = fail(54, "the cluster has no authorizer, so there are no access rules")
    OPERATION_NOT_ATTEMPTED = fail(55, "not attempted, because another part of the request failed")
    KAFKA_STORAGE_ERROR = refresh(56, "the broker could not read or write the disk that holds the partition")
    LOG_DIR_NOT_FOUND = fail(57, "the broker has no such log directory")
    SASL_AUTHENTICATION_FAILED = fail(58, "the broker refused the credentials")
    UNKNOWN_PRODUCER_ID = fail(59, "the broker no longer knows this producer, whose records may all have been deleted")
    REASSIGNMENT_IN_PROGRESS = fail(60, "the partition is being moved to other brokers")
    DELEGATION_TOKEN_AUTH_DISABLED = fail(61, "delegation tokens are not enabled on the cluster")
    DELEGATION_TOKEN_NOT_FOUND = fail(62, "there is no such delegation token")
    DELEGATION_TOKEN_OWNER_MISMATCH = fail(63, "the principal neither owns nor may renew this delegation token")
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = fail(64, "this connection may not ask for delegation tokens")
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = fail(65, "the principal may not do this to the delegation token")
    DELEGATION_TOKEN_EXPIRED = fail(66, "the delegation token has expired")
    INVALID_PRINCIPAL_TYPE = fail(67, "principals of this type are not supported")
    NON_EMPTY_GROUP = fail(68, "the group still has members")
    GROUP_ID_NOT_FOUND = fail(69, "there is no such group")
    FETCH_SESSION_ID_NOT_FOUND = retry(70, "the broker no longer has the fetch session")
    INVALID_FETCH_SESSION_EPOCH = retry(71, "the fetch session expected another epoch")
    LISTENER_NOT_FOUND = refresh(72, "the leader lacks the listener that the client is connected to")
    TOPIC_DELETION_DISABLED = fail(73, "the brokers are configured not to delete topics")
    FENCED_LEADER_EPOCH = refresh(74, "the client knows an older leader of the partition than the broker does")
    UNKNOWN_LEADER_EPOCH = retry(75, "the client knows a newer leader of the partition than the broker does")
    UNSUPPORTED_COMPRESSION_TYPE = fail(76, "the partition holds a compression that this client version cannot read")
    STALE_BROKER_EPOCH = fail(77, "the broker registered again after this request was made")
    OFFSET_NOT_AVAILABLE = retry(78, "the new leader does not know its high watermark yet")
    MEMBER_ID_REQUIRED = fail(79, "the member must join again with the id in this response")
    PREFERRED_LEADER_NOT_AVAILABLE = refresh(80, "the preferred leader cannot lead now")
    GROUP_MAX_SIZE_REACHED = fail(81, "the group has as many members as the broker allows")
    FENCED_INSTANCE_ID = fail(82, "another member has joined with the same group.instance.id")
    ELIGIBLE_LEADERS_NOT_AVAILABLE = refresh(83, "no replica that could lead is available")
    ELECTION_NOT_NEEDED = refresh(84, "the partition already has the requested leader")
    NO_REASSIGNMENT_IN_PROGRESS = fail(85, "the partition is not being moved")
    GROUP_SUBSCRIBED_TO_TOPIC = fail(86, "the group is reading this topic, so its offsets cannot be deleted")
    INVALID_RECORD = fail(87, "the broker checked a record and refused it")
    UNSTABLE_OFFSET_COMMIT = retry(88, "a transaction that commits offsets for the group has not ended yet")
    THROTTLING_QUOTA_EXCEEDED = retry(89, "the client has used up its quota; the response says how long to wait")
    PRODUCER_FENCED = fail(90, "another producer with the same transactional id has taken over")
    RESOURCE_NOT_FOUND = fail(91, "the request names something that does not exist")
    DUPLICATE_RESOURCE = fail(92, "the request names the same thing twice")
    UNACCEPTABLE_CREDENTIAL = fail(93, "the credential does not meet the broker's rules")
    INCONSISTENT_VOTER_SET = fail(94, "sender and receiver disagree about the voters of the quorum")
    INVALID_UPDATE_VERSION = fail(95, "the feature cannot go to this version")
    FEATURE_UPDATE_FAILED = fail(96, "the controller could not change the feature")
    PRINCIPAL_DESERIALIZATION_FAILURE = fail(97, "a broker could not read the principal that another broker forwarded")
    SNAPSHOT_NOT_FOUND = fail(98, "there is no such snapshot")
    POSITION_OUT_OF_RANGE = fail(99, "the position lies outside the snapshot")
    UNKNOWN_TOPIC_ID = refresh(100, "the broker has no topic with this id")
    DUPLICATE_BROKER_REGISTRATION = fail(101, "a live broker uses this broker id already")
    BROKER_ID_NOT_REGISTERED = fail(102, "no broker is registered with this id")
    INCONSISTENT_TOPIC_ID = refresh(103, "the topic has another id; it may have been deleted and created again")
    INCONSISTENT_CLUSTER_ID = fail(104, "the broker belongs to another cluster than the request names")
    TRANSACTIONAL_ID_NOT_FOUND = fail(105, "there is no such transactional id")
    FETCH_SESSION_TOPIC_ID_ERROR = retry(106, "the fetch session mixes topic ids and names")
    INELIGIBLE_REPLICA = fail(107, "a broker is not eligible to join the in-sync replicas")
    NEW_LEADER_ELECTED = fail(108, "the change was made and caused the election of a new leader")
    OFFSET_MOVED_TO_TIERED_STORAGE = fail(109, "the offset is only in tiered storage")
    FENCED_MEMBER_EPOCH = fail(110, "the member's epoch is fenced; it must give up its partitions and join again")
    UNRELEASED_INSTANCE_ID = fail(111, "a member that has not left yet holds this instance id")
    UNSUPPORTED_ASSIGNOR = fail(112, "the group does not support this assignor")
    STALE_MEMBER_EPOCH = fail(113, "the member's epoch is out of date; it learns the new one with its next heartbeat")
    MISMATCHED_ENDPOINT_TYPE = fail(114, "the request was sent to a controller but is for brokers, or vice versa")
    UNSUPPORTED_ENDPOINT_TYPE = fail(115, "this kind of endpoint is not supported")
    UNKNOWN_CONTROLLER_ID = fail(116, "there is no controller with this id")
    UNKNOWN_SUBSCRIPTION_ID = fail(117, "the telemetry subscription is unknown or out of date")
    TELEMETRY_TOO_LARGE = fail(118, "the telemetry is larger than the broker accepts")
    INVALID_REGISTRATION = fail(119, "the controller does not accept the broker's registration")
    TRANSACTION_ABORTABLE = fail(120, "the transaction failed and can only be aborted; the id stays usable")
    INVALID_RECORD_STATE = fail(121, "the record is not held by this member, so it cannot be acknowledged")
    SHARE_SESSION_NOT_FOUND = retry(122, "the broker no longer has the share session")
    INVALID_SHARE_SESSION_EPOCH = retry(123, "the share session expected another epoch")
    FENCED_STATE_EPOCH = fail(124, "the share group's stored state belongs to another epoch")
    INVALID_VOTER_KEY = fail(125, "the voter's key is not that of this replica")
    DUPLICATE_VOTER = fail(126, "the quorum has this voter already")
    VOTER_NOT_FOUND = fail(127, "the quorum has no such voter")
    INVALID_REGULAR_EXPRESSION = fail(128, "the regular expression cannot be compiled")
    REBOOTSTRAP_REQUIRED = fail(129, "the client's metadata is too old; start again from the bootstrap servers")
    STREAMS_INVALID_TOPOLOGY = fail(130, "the topology of the streams group is not valid")
    STREAMS_INVALID_TOPOLOGY_EPOCH = fail(131, "the topology epoch of the streams group is not valid")
    STREAMS_TOPOLOGY_FENCED = fail(132, "the topology epoch of the streams group is out of date")
    SHARE_SESSION_LIMIT_REACHED = retry(133, "the broker holds as many share sessions as it allows")


def _make(name: str, number: int, text: str, retriable: bool, refresh_metadata: bool) -> ErrorCode:
    code = int.__new__(ErrorCode, number)
    code.name, code.text, code.retriable, code.refresh_metadata = name, text, retriable, refresh_metadata
    setattr(ErrorCode, name, code)
    return code


_by_number: dict[int, ErrorCode] = {
    # Python 3.13 and newer give a class tuples of their own, such as __static_attributes__.
    row[0]: _make(name, *row)
    for name, row in list(vars(ErrorCode).items())
    if isinstance(row, tuple) and name.isupper()
}
