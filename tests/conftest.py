"""Shared fixtures: brokers (Apache Kafka and kcli's own, shared or for one test), Kafka's jars, and kcat."""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import functools
import gc
import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.broker_process import BrokerProcess
from tests.certificates import Certificates, make_certificates
from tests.needs import SUMMARY, skip_or_fail
from tests.real_kafka import Kafka, KafkaNode, KafkaUnavailable, OwnBroker, fetch_jars, locked
from tests.schema_registry import JavaSerdes, Registry, fetch_apicurio, fetch_serdes, start_apicurio, start_srfake
from tests.secured_kafka import SecuredKafka, start_secured

# The profile that hypothesis chooses by itself with CI=true: no deadlines, because an example can take long on a busy
# machine, and the same examples in every run.
settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ci")

# A shell that runs pytest in the background makes it ignore these signals. The programs that tests start must not.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)

# The profiles of the person who runs the tests must not change what the commands in tests connect to.
os.environ["XDG_CONFIG_HOME"] = os.devnull
for name in [name for name in os.environ if name.startswith("KCLI_PROFILE")]:
    del os.environ[name]

# A new broker deletes expired records after this delay. Many tests write old records, so they must come later.
FIRST_LOOK_S = 0.7
NEEDS_KAFKA = {"real_kafka", "secured_kafka", "own_kafka", "kafka_jars"}
STAGES = "tests/broker/controller/test_"  # share one controller of Apache Kafka
NEEDS_REGISTRY = {"apicurio", "srfake", "java_serdes"}
BOTH = ["kcli", pytest.param("apache", marks=pytest.mark.real_kafka)]


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Collect without garbage collection, see `pytest_collection_finish`."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Let garbage collections pass over the 19,000 collected tests: they were a tenth of the CPU time of a run."""
    gc.freeze()
    gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import files that have no test of the quick run."""
    return True if config.option.markexpr == "quick" and _is_never_quick(collection_path.as_posix()) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need Apache Kafka and those of the quick run; put the slow files first.

    A file is run by one worker. A slow file that starts early leaves the other workers enough to do at the end. The
    files of one shared SparkSession are the longest task, and then those that start a JVM for each test.
    """
    for item in items:
        if NEEDS_KAFKA & set(getattr(item, "fixturenames", ())):
            item.add_marker("real_kafka")
        if _is_quick(item):
            item.add_marker("quick")
    items.sort(key=_place_in_the_run)


def _place_in_the_run(item: pytest.Item) -> int:
    if _shares_spark(item.nodeid):
        return 0
    if "tests/spark/test_own_jvm_" in item.nodeid:
        return 1
    return 2 if item.get_closest_marker("slow") else 3


def _is_quick(item: pytest.Item) -> bool:
    """True if the test needs neither Java nor another client, and takes little time."""
    if _is_never_quick(item.nodeid):
        return False
    if NEEDS_REGISTRY & set(getattr(item, "fixturenames", ())):
        return False
    return not any(item.get_closest_marker(mark) for mark in ("real_kafka", "spark_cluster", "slow"))


def _is_never_quick(path: str) -> bool:
    return "tests/interop/" in f"{path}/" or _shares_spark(path)


def _shares_spark(nodeid: str) -> bool:
    return "tests/spark/test_jvm_" in nodeid


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print why tests were skipped, and what passed tests recorded for the summary, such as a number of cases."""
    reasons = Counter(report.longrepr[2] for report in terminalreporter.getreports("skipped"))
    for reason, number in reasons.most_common():
        terminalreporter.write_line(f"{reason} ({number})")
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == SUMMARY:
                terminalreporter.write_line(value)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return more workers than there are processors: most tests wait, for brokers and for time limits.

    The quick run waits less, and each worker collects all tests. One file needs none, because one worker would run it.
    So do missing paths, which pytest reports, but no worker does.
    """
    paths = {Path(argument.partition("::")[0]) for argument in config.args}
    if not all(path.exists() for path in paths) or (len(paths) == 1 and paths.pop().is_file()):
        return 0
    return (os.cpu_count() or 1) + (2 if config.option.markexpr == "quick" else 3)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Distribute by file (`--dist loadfile`); files that share a SparkSession or a controller are on one worker."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class OneSparkScheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith(STAGES):
                return STAGES
            return "tests/spark/test_jvm" if _shares_spark(nodeid) else super()._split_scope(nodeid)

    return OneSparkScheduling(config, log)


@pytest.fixture(scope="session", autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep snapshots of changes out of the folder of the person who runs the tests."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    try:
        return fetch_jars()
    except KafkaUnavailable as missing:
        skip_or_fail(str(missing))


@contextlib.contextmanager
def one_for_all_workers(
    factory: pytest.TempPathFactory, name: str, start: Callable[[Path], tuple[str, Callable[[], None]]]
) -> Iterator[str]:
    """Share one server between all xdist workers of a run. `start` returns what they need to know, and how to stop it.

    The first worker that needs it starts it in a new folder. Each worker that uses it holds a shared lock. The worker
    that started it takes the exclusive lock before it stops it, so that the server outlives its last user.
    """
    shared = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    known = shared / f"{name}.address"
    stop = None
    with (shared / f"{name}.users").open("w") as users:
        with locked(shared / f"{name}.start"):
            fcntl.flock(users, fcntl.LOCK_SH)
            if not known.exists():
                address, stop = start(shared / name)
                known.write_text(address)
        try:
            yield known.read_text()
        finally:
            fcntl.flock(users, fcntl.LOCK_UN)  # also for a process that was forked meanwhile, and still has the file
            if stop is not None:
                # The other workers may need the server for longer than a test may take. Each has its own time limit.
                faulthandler.cancel_dump_traceback_later()
                fcntl.flock(users, fcntl.LOCK_EX)
                known.unlink()
                stop()
                shutil.rmtree(shared / name, ignore_errors=True)


@pytest.fixture(scope="session")
def real_kafka(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """One single-node Kafka for the whole run, shared by all xdist workers: name topics with `new_topic`."""

    def start(folder: Path) -> tuple[str, Callable[[], None]]:
        # It is never restarted. A long session keeps the controller from fencing it when CPU time is short.
        node = KafkaNode(folder, kafka_jars, settings={"broker.session.timeout.ms": "60000"})
        node.start()
        node.wait_for_coordinators()
        time.sleep(FIRST_LOOK_S)
        return node.bootstrap_servers, node.kill

    with one_for_all_workers(tmp_path_factory, "kafka", start) as address:
        yield Kafka(address, kafka_jars)


@pytest.fixture(scope="session")
def secured_kafka(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """One Kafka with all secured listeners, a KDC and an OAuth provider, shared like `real_kafka`."""
    with one_for_all_workers(tmp_path_factory, "secured", functools.partial(start_secured, kafka_jars)) as address:
        yield SecuredKafka.at(address, kafka_jars)


@pytest.fixture(scope="session")
def our_secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """Our broker with the same listeners, except Kerberos: one in each xdist worker."""
    from tests.our_secured_kafka import our_secured_broker

    with our_secured_broker(tmp_path_factory.mktemp("our-secured")) as broker:
        yield broker


@pytest.fixture(scope="session", params=BOTH)
def any_secured(request: pytest.FixtureRequest) -> SecuredKafka:
    """Our secured broker and Apache's in turn."""
    found: SecuredKafka = request.getfixturevalue("our_secured" if request.param == "kcli" else "secured_kafka")
    return found


@pytest.fixture
def own_kafka(kafka_jars: Path, tmp_path: Path) -> Iterator[Callable[..., KafkaNode]]:
    """`own_kafka(**settings)` starts a Kafka that the test may stop, kill and restart. It is removed after the test."""
    nodes: list[KafkaNode] = []

    def start(**settings: str) -> KafkaNode:
        properties = {key.replace("_", "."): value for key, value in settings.items()}
        node = KafkaNode(tmp_path / f"kafka-{len(nodes)}", kafka_jars, settings=properties)
        nodes.append(node)
        node.start()
        return node

    yield start
    for node in nodes:
        node.kill()
        shutil.rmtree(node.folder, ignore_errors=True)


@pytest.fixture(scope="session")
def our_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnBroker]:
    """One `kcli broker run` per xdist worker: name topics with `new_topic`."""
    broker = BrokerProcess(tmp_path_factory.mktemp("our-broker"))
    broker.start()
    time.sleep(FIRST_LOOK_S)
    yield broker
    broker.kill()
    shutil.rmtree(broker.folder, ignore_errors=True)


@pytest.fixture
def broker_process(tmp_path: Path) -> Iterator[Callable[..., OwnBroker]]:
    """`broker_process(**settings)` runs `kcli broker run` that the test may stop, kill and restart."""
    brokers: list[BrokerProcess] = []

    def start(**settings: str) -> OwnBroker:
        properties = {key.replace("_", "."): str(value) for key, value in settings.items()}
        broker = BrokerProcess(tmp_path / f"our-broker-{len(brokers)}", settings=properties)
        brokers.append(broker)
        broker.start()
        return broker

    yield start
    for broker in brokers:
        broker.kill()
        shutil.rmtree(broker.folder, ignore_errors=True)


@pytest.fixture(scope="session", params=BOTH)
def any_kafka(request: pytest.FixtureRequest) -> Kafka:
    """kcli's broker and Apache Kafka in turn, shared with other tests."""
    found: Kafka = request.getfixturevalue("our_kafka" if request.param == "kcli" else "real_kafka")
    return found


@pytest.fixture(params=BOTH)
def any_own_kafka(request: pytest.FixtureRequest) -> Callable[..., OwnBroker]:
    """`broker_process` and `own_kafka` in turn: brokers that the test may break."""
    start: Callable[..., OwnBroker] = request.getfixturevalue(
        "broker_process" if request.param == "kcli" else "own_kafka"
    )
    return start


@pytest.fixture(scope="session")
def apicurio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """One Apicurio for the whole run, shared by all xdist workers: use subjects of your own (`apicurio.topic()`)."""
    try:
        distribution = fetch_apicurio()
    except KafkaUnavailable as missing:
        skip_or_fail(str(missing))
    start = functools.partial(start_apicurio, distribution)
    with one_for_all_workers(tmp_path_factory, "apicurio", start) as address:
        yield Registry(f"{address}/apis/ccompat/v7", f"{address}/apis/registry/v2")


@pytest.fixture(scope="session")
def srfake() -> Iterator[Registry]:
    """franz-go's registry, one in each xdist worker; it gives GUIDs. Skipped without Go."""
    address, stop = start_srfake()
    yield Registry(address)
    stop()


@pytest.fixture(scope="session")
def registry_url(apicurio: Registry) -> str:
    """The address of the shared Apicurio for Confluent's clients."""
    return apicurio.url


@pytest.fixture(scope="session")
def java_serdes(apicurio: Registry) -> Iterator[JavaSerdes]:
    """Apicurio's Java serialisers, with the shared Apicurio."""
    try:
        jars = fetch_serdes()
    except KafkaUnavailable as missing:
        skip_or_fail(str(missing))
    serdes = JavaSerdes(jars, apicurio)
    yield serdes
    serdes.close()


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates of servers and clients, with their stores."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A PATH without `java`, as on a machine that has only Python."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)


@pytest.fixture(scope="session")
def kcat() -> str:
    """The path of kcat, a foreign client that uses old protocol versions."""
    path = shutil.which("kcat") or shutil.which("kafkacat")
    return path or skip_or_fail("there is no `kcat` on the PATH")
