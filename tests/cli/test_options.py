"""The common options: the five sources of a value, and their order."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.cli.options import Common, CommonOptions
from kcli.errors import ConfigError
from tests.cli.fake import FakeEnvironment


def merged(environ: dict[str, str] | None = None, **options: object) -> Common:
    return Common.from_options(FakeEnvironment(environ=environ), CommonOptions(**options))  # type: ignore[arg-type]


def test_defaults() -> None:
    common = merged()
    assert common.properties == {"bootstrap.servers": "localhost:9092"}
    assert (common.timeout_ms, common.output, common.verbose) == (30_000, None, False)


def test_each_source_overrides_the_weaker_ones(tmp_path: Path) -> None:
    """-X over options over environment over file over defaults; profiles are in tests/cli/profile."""
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=file:1\nclient.id=file\nclient.rack=file\ndefault.api.timeout.ms=3000\n")
    assert merged(command_config=str(file)).properties["bootstrap.servers"] == "file:1"
    assert merged(command_config=str(file)).timeout_ms == 3000
    assert merged({"KCLI_COMMAND_CONFIG": str(file)}).properties["client.rack"] == "file"

    everywhere = {
        "KCLI_BOOTSTRAP_SERVER": "environ:1",
        "KCLI_TIMEOUT": "4",
        "KCLI_PROPERTY": "client.id=environ",
        "KCLI_COMMAND_CONFIG": str(file),
    }
    assert merged(everywhere).properties["bootstrap.servers"] == "environ:1"
    assert merged(everywhere).properties["client.id"] == "environ"
    assert merged(everywhere).properties["client.rack"] == "file"
    assert merged(everywhere).timeout_ms == 4000

    flagged = merged(everywhere, bootstrap_server="flag:1", timeout=1.5)
    assert flagged.properties["bootstrap.servers"] == "flag:1"
    assert flagged.timeout_ms == 1500

    x = ["bootstrap.servers=x:1", "default.api.timeout.ms=2000"]
    purposeful = merged(everywhere, property=x, bootstrap_server="flag:1", timeout=1.5)
    assert purposeful.properties["bootstrap.servers"] == "x:1"
    assert purposeful.timeout_ms == 2000


def test_a_property_on_the_command_line_overrides_the_option_of_a_command() -> None:
    from kcli.client.config import ConsumerConfig

    common = merged(property=["isolation.level=read_committed", "group.id=g", "fetch.min.bytes=5"])
    assert common.config(ConsumerConfig, isolation_level="read_uncommitted").reads_committed
    assert common.config(ConsumerConfig, fetch_min_bytes=7).fetch_min_bytes == 7  # no option: the command's own
    assert common.config(ConsumerConfig, group_id="g").group_id == "g"
    with pytest.raises(ConfigError, match=r"-X group\.id=g contradicts --group h; give one of them"):
        common.config(ConsumerConfig, group_id="h")


def test_environment_variables_set_output_and_verbose() -> None:
    assert merged({"KCLI_OUTPUT": "json"}).output == "json"
    assert merged({"KCLI_OUTPUT": "json"}, output="csv").output == "csv"
    assert merged({"KCLI_OUTPUT": "json"}).output_option is None
    assert merged({"KCLI_OUTPUT": "json"}, output="csv").output_option == "csv"
    assert merged({"KCLI_VERBOSE": "1"}).verbose
    assert not merged({"KCLI_VERBOSE": "0"}).verbose


def test_a_value_may_contain_equals_signs_and_spaces() -> None:
    jaas = 'sasl.jaas.config=org.x.Plain required username="a" password="b=c";'
    assert merged(property=[jaas]).properties["sasl.jaas.config"] == jaas.partition("=")[2]


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"KCLI_TIMEOUT": "soon"}, "KCLI_TIMEOUT: 'soon' is not valid; use a number of seconds above 0"),
        ({"KCLI_TIMEOUT": "nan"}, "KCLI_TIMEOUT: 'nan' is not valid"),
        ({"KCLI_OUTPUT": "xml"}, "KCLI_OUTPUT: 'xml' is not valid; use table, json"),
        ({"KCLI_PROPERTY": "nonsense"}, "KCLI_PROPERTY: value 1 is not valid; write key=value"),
        ({"KCLI_COMMAND_CONFIG": "/nowhere"}, "cannot read properties file /nowhere"),
    ],
)
def test_a_malformed_variable_is_named_in_the_error(environ: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        merged(environ)


def test_properties_without_effect_in_a_shared_file_are_one_note(tmp_path: Path) -> None:
    from kcli.client.config import ConsumerConfig

    shared = tmp_path / "consumer.properties"
    shared.write_text("value.deserializer=X\nkey.deserializer=X\nacks=all\ninterceptor.classes=\ntransactional.id=t\n")
    env = FakeEnvironment()
    common = Common.from_options(env, CommonOptions(command_config=str(shared)))
    common.config(ConsumerConfig)
    common.config(ConsumerConfig)
    assert env.result(0).err == "kcli: note: without effect in kcli: key.deserializer, value.deserializer\n"


def test_a_property_without_effect_on_the_command_line_is_refused() -> None:
    from kcli.client.config import ConsumerConfig

    common = Common.from_options(FakeEnvironment(), CommonOptions(property=["value.deserializer=X"]))
    with pytest.raises(ConfigError, match=r"^-X value\.deserializer has no effect in kcli: values are bytes"):
        common.config(ConsumerConfig)
    common.config()


def test_an_unknown_property_is_warned_about_once() -> None:
    env = FakeEnvironment()
    common = Common.from_options(env, CommonOptions(property=["fetch.mim.bytes=1", "fetch.min.bytes=7"]))
    common.config()
    config = common.config(client_id="mine")
    assert config.client_id == "mine"
    assert env.result(0).err == (
        "kcli: warning: unknown property fetch.mim.bytes is ignored; did you mean fetch.min.bytes?\n"
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [("soon", "the value"), ("nan", "the value"), ("1e3", "'1e3'"), ("9" * 400, f"'{'9' * 400}'")],
    ids=["word", "nan", "float", "long"],
)
def test_a_malformed_time_out_property_is_refused(value: str, shown: str) -> None:
    """A word is not shown: it may be a password after the wrong name."""
    with pytest.raises(ConfigError, match=rf"default\.api\.timeout\.ms: {shown} is not valid; use a whole number"):
        merged(property=[f"default.api.timeout.ms={value}"])


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), 1e20])
def test_a_time_out_outside_its_range_is_an_error(timeout: float) -> None:
    with pytest.raises(ConfigError, match="use a number of seconds above 0"):
        merged(timeout=timeout)


def test_automatic_topic_creation_is_always_off() -> None:
    common = merged(property=["allow.auto.create.topics=true"])
    assert not common.config().allow_auto_create_topics
    assert not common.config(client_id="mine").allow_auto_create_topics
    assert common.env.result(0).err == "kcli: note: without effect in kcli: allow.auto.create.topics\n"  # type: ignore[attr-defined]


def test_a_properties_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_bytes(b"\xef\xbb\xbfbootstrap.servers=file:1\n")
    assert merged(command_config=str(file)).properties == {"bootstrap.servers": "file:1"}


def test_a_commands_own_properties_override_the_others() -> None:
    assert merged(property=["client.id=theirs"]).config(client_id="mine").client_id == "mine"
