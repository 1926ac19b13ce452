"""API keys, their names and message classes."""

import subprocess
import sys

import pytest

from kcli.errors import ProtocolError
from kcli.protocol.registry import READING, ApiKey, api_name, request_type, response_type
from tests.protocol.golden import table


def test_names_are_kafkas() -> None:
    for key, name, *_ in table("header"):
        assert api_name(int(key)) == name


def test_an_unknown_key_is_named_by_its_number() -> None:
    assert api_name(1234) == "API 1234"
    assert api_name(-1) == "API -1"


@pytest.mark.parametrize("key", ApiKey)
def test_request_and_response_know_each_other(key: ApiKey) -> None:
    request, response = request_type(key), response_type(key)

    assert request.__name__ == api_name(key) + "Request"
    assert request.RESPONSE is response
    assert request.API_KEY == response.API_KEY == key
    assert request.VERSIONS == response.VERSIONS


def test_an_unsupported_api_is_an_error_with_its_name() -> None:
    with pytest.raises(ProtocolError, match="kcli does not support LeaderAndIsr "):
        request_type(4)
    with pytest.raises(ProtocolError, match="kcli does not support API 1234 "):
        response_type(1234)


def test_messages_are_imported_on_first_use() -> None:
    script = (
        "import sys; from kcli.protocol import registry, headers; "
        "loaded = lambda: [m for m in sys.modules if m.startswith('kcli.protocol.messages.')]; "
        "assert loaded() == []; registry.request_type(3); "
        "assert loaded() == ['kcli.protocol.messages.metadata'], loaded(); "
        "assert 'uuid' not in sys.modules and 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


CHANGING = {
    *(ApiKey.PRODUCE, ApiKey.OFFSET_COMMIT, ApiKey.JOIN_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP),
    *(ApiKey.SYNC_GROUP, ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.DELETE_RECORDS, ApiKey.INIT_PRODUCER_ID),
    *(ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS, ApiKey.ALTER_CONFIGS, ApiKey.CREATE_PARTITIONS),
    *(ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN),
    *(ApiKey.DELETE_GROUPS, ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.OFFSET_DELETE),
    *(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT),
    *(ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE, ApiKey.ELECT_LEADERS, ApiKey.ALTER_PARTITION_REASSIGNMENTS),
    *(ApiKey.ALTER_CLIENT_QUOTAS, ApiKey.ALTER_PARTITION, ApiKey.UPDATE_FEATURES, ApiKey.ENVELOPE),
    *(ApiKey.BROKER_REGISTRATION, ApiKey.BROKER_HEARTBEAT, ApiKey.UNREGISTER_BROKER, ApiKey.ALLOCATE_PRODUCER_IDS),
    *(ApiKey.ASSIGN_REPLICAS_TO_DIRS, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN),
    *(ApiKey.WRITE_TXN_MARKERS, ApiKey.TXN_OFFSET_COMMIT, ApiKey.ALTER_REPLICA_LOG_DIRS),
}


def test_each_api_either_reads_or_changes() -> None:
    """An API that changes nothing belongs to `READING`; add each other one here."""
    assert set(ApiKey) - READING == CHANGING
