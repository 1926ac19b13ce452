"""Have a real Kafka live through a past of groups and keep its log: `python -m tests.vectors.make_consumer_offsets`.

consumer_offsets.json holds every batch of __consumer_offsets as that Kafka wrote it, and what it told of the groups
before it stopped. Run by hand when a version of Kafka is new; the file is kept.
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
    """Write the file anew."""
    with tempfile.TemporaryDirectory() as folder:
        kafka = KafkaNode(Path(folder, "kafka"), fetch_jars())
        kafka.start()
        try:
            harness, _transactions = write_history(kafka)
            told = {"offsets": fetch_all_offsets(harness.connect()), "groups": describe_all_groups(harness.connect())}
            kafka.stop()
            logs = {str(number): data.hex() for number, data in log_files(kafka.folder / "data").items()}
        finally:
            kafka.kill()
    origin = f"a Kafka {VERSION}, by python -m tests.vectors.make_consumer_offsets"
    FILE.write_text(_by_line({"origin": origin, **told, "logs": logs}))


def _by_line(sections: dict[str, Any]) -> str:
    """JSON with a line for each thing of a section."""
    lines = []
    for name, section in sections.items():
        told = json.dumps(section)
        if isinstance(section, dict):
            told = "{\n" + ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in section.items()) + "}"
        lines.append(f"{json.dumps(name)}: {told}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    main()
