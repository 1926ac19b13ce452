"""Capture __consumer_offsets of Apache Kafka: `python -m tests.vectors.make_consumer_offsets`.

consumer_offsets.json contains every batch that Kafka wrote to __consumer_offsets, and its responses about the groups
before it stopped. Run it by hand for a new version of Kafka; the file is checked in.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from tests.broker.group.kafka_history import describe_all_groups, fetch_all_offsets, log_files, write_history
from tests.real_kafka import VERSION, KafkaNode, fetch_jars

FILE = Path(__file__).parent / "consumer_offsets.json"


def main() -> None:
    """Write the file."""
    with tempfile.TemporaryDirectory() as folder:
        kafka = KafkaNode(Path(folder, "kafka"), fetch_jars())
        kafka.start()
        try:
            harness, _transactions = write_history(kafka)
            responses = {
                "offsets": fetch_all_offsets(harness.connect()),
                "groups": describe_all_groups(harness.connect()),
            }
            kafka.stop()
            logs = {str(number): data.hex() for number, data in log_files(kafka.folder / "data").items()}
        finally:
            kafka.kill()
    origin = f"a Kafka {VERSION}, by python -m tests.vectors.make_consumer_offsets"
    FILE.write_text(_by_line({"origin": origin, **responses, "logs": logs}))


def _by_line(sections: dict[str, Any]) -> str:
    """Format as JSON with one line for each entry of a section."""
    lines = []
    for name, section in sections.items():
        text = json.dumps(section)
        if isinstance(section, dict):
            text = "{\n" + ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in section.items()) + "}"
        lines.append(f"{json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    main()
