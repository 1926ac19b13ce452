"""Make metadata and control records by Kafka's own classes: `python -m tests.vectors.make_metadata_records`.

The result goes to metadata_records.txt. Run it by hand for a new version of Kafka; the file is checked in.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.protocol.kafka_definitions import load_metadata_definitions, versions
from tests.real_kafka import VERSION, fetch_jars
from tests.vectors.make_messages import ValueMaker

FOLDER = Path(__file__).parent
FILE = FOLDER / "metadata_records.txt"
HEADER = f"""\
# Records of __cluster_metadata as the classes of Kafka {VERSION} write them: values of metadata records (package
# org.apache.kafka.common.metadata) through MetadataRecordSerde, values of control records (package
# org.apache.kafka.common.message) through MessageUtil. Read from JSON by the JsonConverter of each (see
# MetadataRecordVectors.java). One per line: name, version, bytes in hex, and the JSON that was read. Two per version:
# one with every field set, one with nulls and defaults. Made by `python -m tests.vectors.make_metadata_records`.
"""
CONTROL_RECORDS = (
    "LeaderChangeMessage",
    "SnapshotHeaderRecord",
    "SnapshotFooterRecord",
    "KRaftVersionRecord",
    "VotersRecord",
)


def main() -> None:
    """Write the file."""
    jars = fetch_jars(VERSION)
    write = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    cases = "".join(f"{name} {version} {write(value)}\n" for name, version, value in make_cases(jars))
    command = ["java", "-cp", f"{jars}/*", str(FOLDER / "MetadataRecordVectors.java")]
    done = subprocess.run(command, input=cases.encode(), stdout=subprocess.PIPE, check=True, timeout=300)
    FILE.write_text(HEADER + done.stdout.decode())


def make_cases(jars: Path) -> Iterator[tuple[str, int, Any]]:
    """Return name, version and JSON value of each case for the converters."""
    definitions = load_metadata_definitions(jars, VERSION)
    records = sorted((one for one in definitions.values() if one["type"] == "metadata"), key=lambda one: one["apiKey"])
    for definition in [*records, *(definitions[name] for name in CONTROL_RECORDS)]:
        first, last = versions(definition["validVersions"])
        for version in range(first, last + 1):
            maker = ValueMaker(definition, version)
            for make in (maker.full, maker.bare):
                value = make(definition["fields"])
                if definition["type"] != "metadata":
                    value["version"] = version
                yield definition["name"], version, value


if __name__ == "__main__":
    main()
