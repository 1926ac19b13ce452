"""Driver for the test of the bare extra: run each `kcli spark` command once, in one session, and print the statuses.

Run by its path, in an environment that has kcli installed and nothing else of the tests.
"""

from __future__ import annotations

import json
import sys
from typing import Any

JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


def main(bootstrap: str, topic: str, other: str, out: str) -> None:
    import kcli.spark.deploy.session as session
    from kcli.cli.app import run
    from kcli.cli.environment import Environment

    open_session, close_session = session.open_session, session.close_session
    opened: list[Any] = []

    def open_once(**settings: Any) -> Any:
        if not opened:
            opened.append(open_session(**settings))
        return opened[0]

    session.open_session, session.close_session = open_once, lambda _, **more: None  # type: ignore[assignment, misc]
    commands = {
        "export": [topic, "--to", f"{out}/export", "--once", "--commit-group", "g"],
        "throughput": [topic, "--report", f"{out}/throughput.html"],
        "skew": [topic, "--report", f"{out}/skew.html"],
        "profile": [topic, "--fields", "--report", f"{out}/profile.html"],
        "gaps": [topic],
        "duplicates": [topic],
        "compare": [topic, other],
        "group-offsets": ["--groups", "g"],
        "sql": [f"SELECT count(*) FROM topic('{topic}')"],
        "lag-history": ["--groups", "g", "--since", "-1m", "--every", "1s", "--report", f"{out}/lag.html"],
        "compact": [f"{out}/small"],
        "load": [f"{out}/export", "--topic", other, "--append"],
        "archive": [f"{out}/kcli-spark.zip"],
        "doctor": [],
    }
    common = ["-b", bootstrap, "--master", "local[2]", "--conf", f"spark.driver.extraJavaOptions={JVM}"]
    statuses = {}
    for command, words in commands.items():
        print(f"--- kcli spark {command}", file=sys.stderr, flush=True)
        where = [] if command == "archive" else common
        if command == "compact":
            opened[0].range(2).repartition(2).write.parquet(f"{out}/small")
        statuses[command] = run(["spark", command, *words, *where], Environment.of_process())
    for spark in opened:
        close_session(spark)
    print(json.dumps(statuses))


if __name__ == "__main__":
    main(*sys.argv[1:])
