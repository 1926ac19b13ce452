"""The options of every networked command, merged with files, environment variables and defaults.

A value has five sources. From strongest to weakest:

1. its own option: `-b`, `--timeout`, `-O`, `-v`
2. `-X key=value`, with Kafka's property names (`bootstrap.servers`; `default.api.timeout.ms` for the time-out)
3. the file of `--command-config`, Kafka properties too
4. the environment: KCLI_BOOTSTRAP_SERVER, KCLI_PROPERTY (one `key=value` per line), KCLI_COMMAND_CONFIG (counts as 3),
   KCLI_TIMEOUT, KCLI_OUTPUT, KCLI_VERBOSE
5. the default: localhost:9092, 30 seconds
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, TypeVar, cast

from kcli.cli.environment import Environment
from kcli.cli.parser import Option
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.client.config import ClientConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient

    C = TypeVar("C", bound=ClientConfig)

DEFAULT_BOOTSTRAP = "localhost:9092"
DEFAULT_TIMEOUT_S = 30.0
OUTPUTS = ("table", "json", "jsonl", "csv", "tsv")


class Common:
    """The merged common options.

    `output` is one of `OUTPUTS`, or None if none was chosen. `output_option` is the value on the command line only, for
    commands with other options for their output. `timeout_ms` applies to the whole command; `properties` are Kafka's,
    ready for a configuration. `options` has the option of each property that an option of its own has set. `on_purpose`
    are the names of properties on the command line.
    """

    def __init__(
        self,
        env: Environment,
        properties: dict[str, str],
        timeout_ms: float,
        output: str | None,
        output_option: str | None,
        verbose: bool,
        options: "dict[str, str]",
        on_purpose: Collection[str] = (),
    ) -> None:
        self.env = env
        self.properties = properties
        self.timeout_ms = timeout_ms
        self.output = output
        self.output_option = output_option
        self.verbose = verbose
        self.options = options
        self.on_purpose = on_purpose
        self._warned: set[str] = set()

    def config(self, cls: "type[C] | None" = None, **strongest: str | int | bool) -> "C":
        """Return a configuration of this class (default `ClientConfig`) from the properties.

        `strongest` are the command's own settings, with underscores for dots; they override the rest. An unknown key is
        reported once, and so are properties without effect in a file, which may be shared with other clients; one on
        the command line is an error. Automatic topic creation is always off, so that no command creates a topic by
        reading its metadata.
        """
        if cls is None:
            from kcli.client.config import ClientConfig

            cls = cast("type[C]", ClientConfig)
        own = {key.replace("_", "."): value for key, value in strongest.items()}
        try:
            config = cls.from_properties({**self.properties, **own, "allow.auto.create.topics": False})
        except ConfigError as error:
            key, colon, rest = str(error).partition(": ")
            option = _OPTION_OF.get(key) if key in own else self.options.get(key)
            if option is None:
                raise
            raise ConfigError(f"{option}{colon}{rest}") from error.__cause__
        for key in sorted(set(config.unknown) - self._warned):
            self._warned.add(key)
            self._warn(key)
        self._check_effect(config)
        return config

    def _check_effect(self, config: "ClientConfig") -> None:
        no_effect = config.no_effect
        for key in no_effect.keys() & set(self.on_purpose):
            from kcli.client.config import without_effect

            raise without_effect(f"-X {key}", no_effect[key])
        if self.properties.get("allow.auto.create.topics") == "true":
            no_effect["allow.auto.create.topics"] = "kcli creates no topic by reading it"
        if names := sorted(no_effect.keys() - self._warned):
            self._warned.update(names)
            self.env.report(f"kcli: note: without effect in kcli: {', '.join(names)}")

    def _warn(self, key: str) -> None:
        from kcli.client.config import nearest_name

        near = nearest_name(key)
        hint = f"; did you mean {near}?" if near else ""
        self.env.report(f"kcli: warning: unknown property {key} is ignored{hint}")

    def connect(self, config: "ClientConfig | None" = None) -> "ConsumerNetworkClient":
        """Return a client for these options; use it in a `with closing(...)`. It sends nothing before the first
        request.
        """
        from kcli.client.connect import connect

        client = connect(config or self.config(), self.env.clock)
        client.metrics.on_throttled = self._report_throttling
        if self.verbose:
            client.on_close = lambda: self.env.report(f"kcli: {client.metrics.summary()}")
        return client

    def _report_throttling(self, throttle_ms: float) -> None:
        seconds = throttle_ms / 1000
        self.env.report(f"kcli: note: quotas of the brokers slow kcli down: {seconds:.1f} s so far (throttle_time_ms)")

    @property
    def time_limit(self) -> dict[str, str]:
        """The time limit as a property, for a client that is made elsewhere, as in Spark."""
        return {_TIMEOUT: str(round(self.timeout_ms))}

    def deadline_ms(self) -> float:
        """Return the deadline of a command that starts now: for the library's `deadline_ms` arguments."""
        return self.env.clock.now_ms() + self.timeout_ms


def common_options(
    env: Environment,
    bootstrap_server: Annotated[
        str | None,
        Option(
            "--bootstrap-server",
            "-b",
            metavar="HOST:PORT,...",
            help=f"Connect to these brokers first. [KCLI_BOOTSTRAP_SERVER; {DEFAULT_BOOTSTRAP}]",
        ),
    ] = None,
    property: Annotated[
        list[str] | None,
        Option(
            "--property", "-X", metavar="KEY=VALUE", help="Set a Kafka client property; repeatable. [KCLI_PROPERTY]"
        ),
    ] = None,
    command_config: Annotated[
        str | None,
        Option(
            "--command-config", metavar="FILE", help="Read Kafka client properties from a file. [KCLI_COMMAND_CONFIG]"
        ),
    ] = None,
    timeout: Annotated[
        float | None,
        Option(
            "--timeout",
            metavar="SECONDS",
            help=f"Wait at most this long for brokers. [KCLI_TIMEOUT; {DEFAULT_TIMEOUT_S:g}]",
        ),
    ] = None,
    output: Annotated[
        str | None,
        Option("--output", "-O", metavar="|".join(OUTPUTS), help="Set the output format. [KCLI_OUTPUT; table]"),
    ] = None,
    verbose: Annotated[bool, Option("--verbose", "-v", help="Print more details on stderr. [KCLI_VERBOSE]")] = False,
) -> Common:
    """Merge the options with files and environment variables. `ConfigError` for a malformed value."""
    environ = env.environ
    properties = {"bootstrap.servers": environ.get("KCLI_BOOTSTRAP_SERVER") or DEFAULT_BOOTSTRAP}
    if environ.get("KCLI_TIMEOUT"):
        properties[_TIMEOUT] = _seconds_as_ms("KCLI_TIMEOUT", environ["KCLI_TIMEOUT"])
    properties.update(key_values("KCLI_PROPERTY", environ.get("KCLI_PROPERTY", "").splitlines()))
    properties.update(read_properties(command_config or environ.get("KCLI_COMMAND_CONFIG")))
    on_purpose = key_values("-X", property or [])
    properties.update(on_purpose)
    if bootstrap_server is not None:
        properties["bootstrap.servers"] = bootstrap_server
    if timeout is not None:
        properties[_TIMEOUT] = _seconds_as_ms("--timeout", timeout)
    chosen = _output("--output", output)
    default = _output("KCLI_OUTPUT", environ.get("KCLI_OUTPUT"))
    options = {} if bootstrap_server is None else {"bootstrap.servers": "--bootstrap-server"}
    timeout_ms, is_verbose = _timeout_ms(properties), verbose or env.is_verbose
    return Common(env, properties, timeout_ms, chosen or default, chosen, is_verbose, options, on_purpose)


_TIMEOUT = "default.api.timeout.ms"

# The options of commands that set a property of Kafka: an error names the option, not the property.
_OPTION_OF = {
    "acks": "--acks",
    "compression.type": "--compression",
    "group.id": "--group",
    "group.instance.id": "--instance-id",
    "group.protocol": "--protocol",
    "isolation.level": "--isolation-level",
}


def key_values(where: str, texts: Iterable[str]) -> dict[str, str]:
    """Return texts `key=value` as a dict; the last value of a key wins.

    `ConfigError` for a malformed text; `where` is the option or variable it comes from.
    """
    pairs = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not text.strip():
            continue
        if not equals or not key.strip():
            raise ConfigError(f"{where}: '{text}' is not valid; write key=value")
        pairs[key.strip()] = value.strip()
    return pairs


def read_properties(path: str | None) -> dict[str, str]:
    """Return the properties in a file; none without a path. `ConfigError` for a file that cannot be read."""
    if not path:
        return {}
    from kcli.client.properties import load_properties

    try:
        with open(path, encoding="utf-8-sig") as file:  # some editors write a byte order mark
            return load_properties(file.read())
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not a text file"
        raise ConfigError(f"cannot read properties file {path}: {reason}") from error


def _seconds_as_ms(where: str, value: str | float) -> str:
    try:
        ms = float(value) * 1000
    except ValueError:
        ms = 0.0
    if not 0 < ms < 1e12:
        shown = value if isinstance(value, str) else f"{value:g}"
        raise ConfigError(f"{where}: '{shown}' is not valid; use a number of seconds above 0 and below 1e9, such as 30")
    return str(max(1, round(ms)))


def _timeout_ms(properties: dict[str, str]) -> float:
    text = properties.get(_TIMEOUT, f"{DEFAULT_TIMEOUT_S * 1000:.0f}")
    try:
        return float(int(text))
    except (ValueError, OverflowError):
        raise ConfigError(
            f"{_TIMEOUT}: '{text}' is not valid; use a whole number of milliseconds, such as 30000"
        ) from None


def _output(where: str, value: str | None) -> str | None:
    if value:
        check_choice(where, value, OUTPUTS)
    return value or None


@contextmanager
def naming(option: str) -> Iterator[None]:
    """Put the name of the option in front of each `ConfigError` that is raised in the block."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{option}: {error}") from error.__cause__


def check_choice(option: str, value: str, choices: Iterable[str]) -> None:
    """Raise `ConfigError` unless `value` is one of the choices of this option."""
    if value not in (known := list(choices)):
        from kcli.settings import invalid_value

        *others, last = known
        raise invalid_value(option, value, f"{', '.join(others)} or {last}")


def check_interval(seconds: float) -> None:
    """Raise `ConfigError` unless `seconds` is a usable --interval."""
    if not 0 < seconds < 1e6:
        raise ConfigError(f"--interval: {seconds:g} is not valid; use a number of seconds above 0")
