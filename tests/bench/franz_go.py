"""franz-go's own tests of its client on our broker: `python -m tests.bench.franz_go [--run REGEX] [--apache]`.

They contain groups of both protocols and a chain of three transactional consumers and producers, in six variants
(TestTxnEtl). The module comes from Go's registry and needs Go. Tests of share groups and of SCRAM skip themselves. The
exit status is that of the tests.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.broker_process import BrokerProcess
from tests.real_kafka import KafkaNode, OwnBroker, cache_directory, fetch_jars

MODULE, VERSION = "github.com/twmb/franz-go", "v1.22.2"
RECORDS = "20000"  # of each chain; franz-go's default is half a million
TIMEOUT_S = 900
RESULT = re.compile(r"^--- (PASS|FAIL|SKIP): (\w+)", re.MULTILINE)


def built() -> Path:
    """Return the program of the tests, built once, with its working directory beside it."""
    folder = cache_directory() / f"go-franz-go-suite-{VERSION}"
    if not (folder / "kgo.test").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "go.mod").write_text("module suite\n")
        command = ["go", "mod", "download", "-json", f"{MODULE}@{VERSION}"]
        done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
        source = folder / "source"
        shutil.copytree(json.loads(done.stdout)["Dir"], source)
        for path in (source, *source.rglob("*")):
            path.chmod(path.stat().st_mode | 0o200)  # Go's copy cannot be written to
        build = ["go", "test", "-c", "-o", str(folder / "kgo.test"), "./pkg/kgo"]
        subprocess.run(build, cwd=source, check=True)
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", default=".", help="run the tests that match this expression")
    parser.add_argument("--apache", action="store_true", help="use Apache's broker")
    options = parser.parse_args()
    suite = built()
    with tempfile.TemporaryDirectory(prefix="kcli-franz-") as scratch:
        folder = Path(scratch) / "broker"
        broker: OwnBroker = KafkaNode(folder, fetch_jars()) if options.apache else BrokerProcess(folder)
        broker.start()
        own = {"KGO_SEEDS": broker.bootstrap_servers, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": RECORDS}
        command = [str(suite / "kgo.test"), "-test.v", f"-test.run={options.run}", f"-test.timeout={TIMEOUT_S}s"]
        begin = time.monotonic()
        try:
            where = suite / "source" / "pkg" / "kgo"
            done = subprocess.run(command, cwd=where, env={**os.environ, **own}, capture_output=True, text=True)
        finally:
            broker.kill()
    results = RESULT.findall(done.stdout)
    print(dict(Counter(result for result, _ in results)), f"{time.monotonic() - begin:.0f} s")
    for name in (name for result, name in results if result == "FAIL"):
        print(f"failed: {name}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
