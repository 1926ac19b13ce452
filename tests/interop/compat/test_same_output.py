"""`kcli compat consumer-groups` beside Apache's tool (4.3.1) on one cluster: output of reads, plans, wrong usage."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.broker_process import BrokerProcess
from tests.interop.compat.both_tools import GroupTool, Said, normalised, run_ours
from tests.interop.compat.scene import LONG, scene
from tests.needs import needs_package
from tests.real_kafka import Kafka, KafkaNode

pytestmark = pytest.mark.slow

DONE, FAILED, USAGE, NOT_FOUND, REFUSED, INCOMPLETE = 0, 1, 2, 3, 4, 5

# What both say the same of, and the exit status of ours. Theirs is 1 where ours is USAGE* and 0 everywhere else.
LOOKS: dict[str, int] = {
    "--list": DONE,
    "-list": DONE,
    "--list extra words": DONE,
    "--list --list": DONE,
    "--list -- --bogus": DONE,
    "--list --state": DONE,
    "--list --state=": DONE,
    "--list --type": DONE,
    "--list --state --type": DONE,
    "--list --state Stable,empty": DONE,
    "--list --state stable --type classic": DONE,
    "--list --type=consumer": DONE,
    "--list --state Dead": DONE,
    "--list --timeout 20000": DONE,
    "--describe --group stopped": DONE,
    "--describe --group=stopped": DONE,
    "--describe -group stopped": DONE,
    "--describe --group stopped --offsets": DONE,
    "--describe --group stopped --verbose": DONE,
    "--describe --group stopped --offsets --verbose": DONE,
    "--describe --group stopped --group second": DONE,
    "--describe --group stopped --group stopped": DONE,
    "--describe --group 'a group, with a name'": DONE,
    "--describe --group live": DONE,
    "--describe --group live --verbose": DONE,
    "--describe --group live --members": DONE,
    "--describe --group live --members --verbose": DONE,
    "--describe --group live --state": DONE,
    "--describe --group live --state --verbose": DONE,
    "--describe --group stopped --members": DONE,
    "--describe --group stopped --members --verbose": DONE,
    "--describe --group stopped --state": DONE,
    "--describe --group stopped --state --verbose": DONE,
    "--describe --all-groups": DONE,
    "--describe --all-groups --members": DONE,
    "--describe --all-groups --state": DONE,
    "--describe --group nope": NOT_FOUND,
    "--describe --group nope --group stopped": NOT_FOUND,
    "--describe --group nope --members": NOT_FOUND,
    "--describe --group nope --state": NOT_FOUND,
}
PLANS: dict[str, int] = {
    "--group stopped --topic orders --to-earliest": DONE,
    "--group stopped --topic orders:0,1 --to-latest": DONE,
    "--group stopped --topic orders:1 --topic stored --to-latest": DONE,
    "--group stopped --all-topics --to-latest": DONE,
    "--group stopped --all-topics --topic stored --to-earliest": DONE,
    "--group stopped --topic orders --to-current": DONE,
    "--group stopped --topic orders:0,1 --to-offset 900": DONE,
    "--group stopped --topic orders:0 --to-offset -5": DONE,
    "--group stopped --topic orders --to-offset 3": DONE,
    "--group stopped --topic orders:0,1 --shift-by -1": DONE,
    "--group stopped --topic orders:0,1 --shift-by +100": DONE,
    "--group stopped --topic orders:0 --shift-by=-100": DONE,
    "--group stopped --topic orders --to-datetime 2024-01-01T00:00:00.000": DONE,
    "--group stopped --topic orders --to-datetime 2034-01-01T00:00:00.000+02:00": DONE,
    "--group stopped --topic orders --to-datetime 2034-1-1T0:0:0.0Z": DONE,
    "--group stopped --topic orders --by-duration PT1H": DONE,
    "--group stopped --topic orders --by-duration P1DT2H30M0.5S": DONE,
    "--group stopped --topic orders --by-duration -PT1H": DONE,
    "--group stopped --from-file {files}/plain.csv": DONE,
    "--group stopped --from-file {files}/grouped.csv": DONE,
    "--group stopped --group second --from-file {files}/grouped.csv": DONE,
    "--group stopped --from-file {files}/dos.csv": DONE,
    "--group stopped --topic orders --to-earliest --export": DONE,
    "--group stopped --group second --topic orders:0 --to-earliest --export": DONE,
    f"--group 'a group, with a name' --group second --topic {LONG} --to-earliest --export": DONE,
    f"--group 'a group, with a name' --topic {LONG} --to-earliest": DONE,
    "--group fresh --topic orders --to-earliest": DONE,
    "--group fresh --all-topics --to-earliest": DONE,
    "--group stopped --group second --from-file {files}/plain.csv": NOT_FOUND,
    "--group other --from-file {files}/grouped.csv": NOT_FOUND,
    "--group live --topic orders --to-earliest": REFUSED,
    "--group live --topic orders --to-earliest --export": REFUSED,
    "--group live --group stopped --topic orders:0 --to-earliest": REFUSED,
    "--all-groups --topic orders:0 --to-latest": REFUSED,
    "--group stopped --topic nope --to-earliest": NOT_FOUND,
    "--group stopped --topic nope:0 --to-earliest": NOT_FOUND,
    "--group stopped --topic orders:9,8 --to-earliest": NOT_FOUND,
    "--group stopped --topic orders:0 --to-datetime 2024-01-01T00:00:00Z": USAGE,
    "--group stopped --topic orders:0 --to-datetime 2024-13-01T00:00:00.000": USAGE,
    "--group stopped --topic orders:0 --to-datetime 2024-01-01": USAGE,
    "--group stopped --topic orders:0 --by-duration 1h": USAGE,
    "--group stopped --topic orders:0 --by-duration P": USAGE,
    "--group stopped --topic orders:0 --by-duration PT": USAGE,
    "--group stopped --topic orders:0 --to-offset abc": USAGE,
}
WRONG = (
    "--describe",
    "--describe --group a --state x",
    "--describe --group a --state --members",
    "--describe --all-groups --group g",
    "--describe --group g --topic t",
    "--list --group g",
    "--list --describe",
    "--list --delete --all-groups",
    "--list --state bogus",
    "--list --type share",
    "--list --members",
    "--list --verbose --offsets",
    "--list --bogus",
    "-x --list",
    "--list --group",
    "--delete",
    "--delete --group second --topic orders",
    "--delete-offsets --group stopped",
    "--delete-offsets --topic orders",
    "--export --group stopped",
    "--execute",
    "--reset-offsets --topic orders --to-earliest --dry-run",
    "--reset-offsets --topic orders --to-earliest",
    "--reset-offsets --group stopped --to-earliest --dry-run",
    "--reset-offsets --group stopped --topic orders --dry-run",
    "--reset-offsets --group stopped --topic orders --to-earliest --to-latest --dry-run",
    "--reset-offsets --group stopped --topic orders --to-offset 1 --shift-by 1",
    "--reset-offsets --group stopped --topic orders --to-earliest --dry-run --execute",
    "--reset-offsets --group stopped --topic orders:x --to-earliest --dry-run",
    "--reset-offsets --group stopped --topic orders: --to-earliest --dry-run",
    "--reset-offsets --group stopped --topic orders:0:1 --to-earliest --dry-run",
    "--reset-offsets --group stopped --topic orders --shift-by 1 --dry-run",
    "--reset-offsets --group stopped --from-file {files}/below.csv --dry-run",
)
NEXT_GENERATION = {
    "--list --type consumer --state": DONE,
    "--describe --group next": DONE,
    "--describe --group next --verbose": DONE,
    "--describe --group next --members": DONE,
    "--describe --group next --members --verbose": DONE,
    "--describe --group next --state": DONE,
    "--describe --group next --state --verbose": DONE,
    "--reset-offsets --group next --topic orders --to-earliest --dry-run": REFUSED,
}
PATTERNS = (
    *("", "a.*", "^orders-(eu|us)$", "(a", "a)", "a**", "a*?", "a*+", "*", "a|*", "(*)", "^*", "(|a)*", "()+"),
    *("(?=a)", "(?!a)", "(?<n>a)", "(?P<n-x>a)", "(?P<n", "(?P<>a)", "(?P=n)"),
    *("(?i)a", "(?i-s:a)", "(?)", "(?x)a", "(?i", "(?", "(?i)*", "[a", "[]a]", "[]", "[^]", "[z-a]", "[a-b-c]"),
    *("[[:alpha:]]", "[[:foo:]]", "[[:word:]", "[\\d-z]", "[a-\\d]", "a\\", "\\1", "\\y", "\\_", "\\Z", "\\b+"),
    *("\\pL", "\\p{Greek}", "\\p{Nope}", "\\p{Latin", "a{2,1}", "a{1001}", "a{,3}", "a{2}{3}", "{1}", "\\Qa*("),
    *("\\x{110000}", "\\x41", "\\x4", "orders\\.[a-z]+\\d{2,}"),
)

# Patterns that RE2 and the tool's RE2/J judge or explain differently, with the tool's verdict and ours.
DIFFERENT_PATTERNS = {
    "(?<=a)b": ("invalid: invalid named capture", "invalid: invalid or unsupported Perl syntax"),
    "(?P<n>a)(?P<n>b)": ("invalid: duplicate capture group name", "valid"),
    "\\C": ("invalid: invalid escape sequence", "valid"),
    "\\é": ("valid", "invalid: invalid escape sequence"),
}


class Stage(NamedTuple):
    """A cluster, and both tools for it."""

    kafka: Kafka
    tool: GroupTool
    files: Path

    def both(self, line: str) -> tuple[Said, Said]:
        words = shlex.split(line.format(files=self.files) if "{files}" in line else line)
        words = ["--bootstrap-server", self.kafka.bootstrap_servers, *words]
        return self.tool.run(words), run_ours(words)

    def same(self, line: str) -> tuple[Said, Said]:
        theirs, ours = self.both(line)
        assert normalised(ours) == normalised(theirs)
        return theirs, ours


@pytest.fixture(scope="module", params=["kcli", pytest.param("apache", marks=pytest.mark.real_kafka)])
def stage(
    request: pytest.FixtureRequest, tool: GroupTool, kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    """Start a cluster for this module alone, because the tests list all groups."""
    folder = tmp_path_factory.mktemp("compat")
    real = request.param == "apache"
    broker = KafkaNode(folder / "broker", kafka_jars) if real else BrokerProcess(folder / "broker")
    broker.start()
    try:
        with scene(broker, folder, next_generation=real):
            yield Stage(broker, tool, folder)
    finally:
        broker.kill()


@pytest.mark.parametrize("line", LOOKS)
def test_reads_print_the_same(stage: Stage, line: str) -> None:
    theirs, ours = stage.same(line)
    assert (theirs.status, ours.status) == (0, LOOKS[line])


@pytest.mark.parametrize("line", PLANS)
def test_plans_print_the_same(stage: Stage, line: str) -> None:
    theirs, ours = stage.same(f"--reset-offsets {line} --dry-run")
    assert (theirs.status, ours.status) == (0, PLANS[line])


def test_a_plan_without_dry_run_or_execute_prints_the_same(stage: Stage) -> None:
    theirs, ours = stage.same("--reset-offsets --group stopped --topic orders --to-earliest")
    assert (theirs.status, ours.status) == (0, DONE)


@pytest.mark.parametrize("stage", ["kcli"], indirect=True)  # few of them reach a broker
@pytest.mark.parametrize("line", WRONG)
def test_wrong_usage_prints_the_same(stage: Stage, line: str) -> None:
    theirs, ours = stage.same(line)
    assert (theirs.status, ours.status) == (1, USAGE)


@pytest.mark.parametrize("stage", [pytest.param("apache", marks=pytest.mark.real_kafka)], indirect=True)
@pytest.mark.parametrize("line", NEXT_GENERATION)
def test_a_kip848_group_prints_the_same(stage: Stage, line: str) -> None:
    theirs, ours = stage.same(line)
    assert (theirs.status, ours.status) == (0, NEXT_GENERATION[line])


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_match_the_same(tool: GroupTool, pattern: str) -> None:
    needs_package("re2", "regex")
    words = ["--validate-regex", pattern]
    theirs, ours = tool.run(words), run_ours(words)
    assert (ours.stdout, ours.stderr) == (theirs.stdout, theirs.stderr)
    assert ours.status == (FAILED if "is invalid" in theirs.stdout else DONE)


@pytest.mark.parametrize("pattern", DIFFERENT_PATTERNS)
def test_known_differences_of_patterns(tool: GroupTool, pattern: str) -> None:
    needs_package("re2", "regex")
    words = ["--validate-regex", pattern]
    said = [f"The regular expression `{pattern}` is {verdict}.\n" for verdict in DIFFERENT_PATTERNS[pattern]]
    assert [tool.run(words).stdout, run_ours(words).stdout] == said
