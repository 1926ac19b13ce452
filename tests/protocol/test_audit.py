"""The message declarations compared with Kafka's definitions.

The definitions come from KCLI_KAFKA_CHECKOUT (a checkout of Apache Kafka, a folder of its message JSONs, or a
kafka-clients jar) if it is set, and from the jars of the real Kafka that other tests start.
"""

import copy
import os
from pathlib import Path

import pytest

from tests.protocol.audit import audit, compare, our_messages
from tests.protocol.kafka_definitions import load_definitions, stable_versions
from tests.real_kafka import VERSION

DECLARED_FOR = "4.3.1"


@pytest.mark.skipif("KCLI_KAFKA_CHECKOUT" not in os.environ, reason="KCLI_KAFKA_CHECKOUT does not name a checkout")
def test_declarations_match_the_checkout() -> None:
    assert audit(Path(os.environ["KCLI_KAFKA_CHECKOUT"])) == []


@pytest.fixture(scope="module")
def clients_jar(kafka_jars: Path) -> Path:
    if VERSION != DECLARED_FOR:
        pytest.skip(f"the messages are declared for Kafka {DECLARED_FOR}, not {VERSION}")
    return kafka_jars / f"kafka-clients-{DECLARED_FOR}.jar"


def test_declarations_match_the_jar(clients_jar: Path) -> None:
    assert audit(clients_jar) == []


def test_the_audit_finds_a_changed_name_type_tag_default_order_and_range(clients_jar: Path) -> None:
    fetch = next(cls for cls in our_messages() if cls.__name__ == "FetchResponse")
    original = load_definitions(clients_jar)

    def differences(change: str) -> int:
        definitions = copy.deepcopy(original)
        message = definitions["FetchResponse"]
        fields = message["fields"]
        partition = fields[3]["fields"][2]["fields"]
        match change:
            case "name":
                fields[2]["name"] = "SessionNumber"
            case "type":
                fields[2]["type"] = "int64"
            case "tag":
                partition[5]["tag"] = 7
            case "default":
                partition[3]["default"] = "-2"
            case "nullable":
                del partition[-1]["nullableVersions"]
            case "ignorable":
                partition[4]["ignorable"] = False
            case "since":
                partition[4]["versions"] = "6+"
            case "order":
                partition[0], partition[1] = partition[1], partition[0]
            case "versions":
                message["validVersions"] = "4-19"
            case "flexible":
                message["flexibleVersions"] = "13+"
        return len(list(compare(fetch, definitions)))

    assert differences("nothing") == 0
    for change in ("name", "type", "tag", "default", "nullable", "ignorable", "since", "order", "versions", "flexible"):
        assert differences(change) > 0, change


def test_an_unstable_newest_version_is_ignored(clients_jar: Path) -> None:
    definitions = load_definitions(clients_jar)

    assert definitions["InitProducerIdRequest"]["latestVersionUnstable"] is True
    assert stable_versions(definitions, "InitProducerIdRequest") == (0, 5)
    assert stable_versions(definitions, "InitProducerIdResponse") == (0, 5)
