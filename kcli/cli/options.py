"""The options that several families share: those of every networked command, of schemas, and common checks.

The options of networked commands are merged with files, environment variables and defaults.

A value has six sources. From strongest to weakest:

1. `-X key=value`, with Kafka's property names (`bootstrap.servers`; `default.api.timeout.ms` for the time-out)
2. its own option: `-b`, `--timeout`, `-O`, `-v`
3. the environment: KCLI_PROPERTY (one `key=value` per line), KCLI_BOOTSTRAP_SERVER, KCLI_SCHEMA_REGISTRY,
   KCLI_TIMEOUT, KCLI_OUTPUT, KCLI_VERBOSE
4. the profile of `-P`, else of KCLI_PROFILE, else the current one of `kcli profile use`; `-P none`: no profile
5. the properties file of `--command-config`, else of KCLI_COMMAND_CONFIG, else of the profile
6. the default: localhost:9092, 30 seconds

The current profile is the default cluster: its properties apply only if nothing else names a cluster, which `-b`,
`--command-config`, `-X bootstrap.servers` and the variables for these do. Its `read-only` and `colour` always apply.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias, TypeVar, cast

from kcli.cli.environment import Environment
from kcli.cli.parser import Option
from kcli.cli.property_sources import (
    client_properties,
    complete_properties,
    read_properties,
    warn_of_secrets,
)
from kcli.errors import ConfigError

if TYPE_CHECKING:
    from kcli.cli.profile.profile_file import Profile
    from kcli.client.config import ClientConfig
    from kcli.client.consumer_network_client import ConsumerNetworkClient
    from kcli.schemas.registry_client import SchemaRegistry
    from kcli.schemas.serdes import Side

    C = TypeVar("C", bound=ClientConfig)

DEFAULT_BOOTSTRAP = "localhost:9092"
DEFAULT_TIMEOUT_S = 30.0
OUTPUTS = ("table", "json", "jsonl", "csv", "tsv")


class CommonOptions(NamedTuple):
    """The options of every networked command, as given."""

    profile: Annotated[
        str | None,
        Option(
            "--profile",
            "-P",
            metavar="PROFILE",
            help="Use this profile, see kcli profile; none: no profile. [KCLI_PROFILE; the current one]",
        ),
    ] = None
    bootstrap_server: Annotated[
        str | None,
        Option(
            "--bootstrap-server",
            "-b",
            metavar="HOST:PORT,...",
            help=f"Connect to these brokers first. [KCLI_BOOTSTRAP_SERVER; {DEFAULT_BOOTSTRAP}]",
        ),
    ] = None
    property: Annotated[
        list[str] | None,
        Option(
            "--property", "-X", metavar="KEY=VALUE", help="Set a Kafka client property; repeatable. [KCLI_PROPERTY]"
        ),
    ] = None
    command_config: Annotated[
        str | None,
        Option(
            "--command-config", metavar="FILE", help="Read Kafka client properties from a file. [KCLI_COMMAND_CONFIG]"
        ),
    ] = None
    timeout: Annotated[
        float | None,
        Option(
            "--timeout",
            metavar="SECONDS",
            help=f"Wait at most this long for brokers. [KCLI_TIMEOUT; {DEFAULT_TIMEOUT_S:g}]",
        ),
    ] = None
    output: Annotated[
        str | None,
        Option("--output", "-O", metavar="|".join(OUTPUTS), help="Set the output format. [KCLI_OUTPUT; table]"),
    ] = None
    verbose: Annotated[bool, Option("--verbose", "-v", help="Print more details on stderr. [KCLI_VERBOSE]")] = False


class Common:
    """The merged common options.

    `output` is one of `OUTPUTS`, or None if none was chosen. `output_option` is the value on the command line only, for
    commands with other options for their output. `timeout_ms` applies to the whole command. `options` has the option of
    each property that an option of its own has set. `on_purpose` are the names of properties on the command line.
    `given` are Kafka's properties without the output of a password command, and `sources` has the source of each.
    `profile` is the chosen profile.
    """

    def __init__(
        self,
        env: Environment,
        layers: "list[Layer]",
        output: str | None,
        output_option: str | None,
        verbose: bool,
        on_purpose: Collection[str],
        profile: "ChosenProfile",
        options: CommonOptions,
    ) -> None:
        self.env = env
        self.given = {name: value for layer in layers for name, value in layer.properties.items()}
        self.sources = {name: layer.source for layer in layers for name in layer.properties}
        self._of_file = {name for layer in layers if layer.is_file for name in layer.properties}
        self._of_file -= {name for layer in layers if not layer.is_file for name in layer.properties}
        self.timeout_ms = _timeout_ms(self.given)
        self.output = output
        self.output_option = output_option
        self.verbose = verbose
        self.options = {name: source for name, source in self.sources.items() if source == "--bootstrap-server"}
        self.on_purpose = on_purpose
        self.profile = profile
        self._options = options
        self._warned: set[str] = set()

    @classmethod
    def from_options(cls, env: Environment, given: CommonOptions) -> "Common":
        """Merge the options with files and environment variables. `ConfigError` for a malformed value."""
        environ, brokers, timeout = env.environ, given.bootstrap_server, given.timeout
        on_purpose = client_properties("-X", given.property or [])
        warn_of_secrets(env, on_purpose)
        options = [
            Layer("--bootstrap-server", {} if brokers is None else {"bootstrap.servers": brokers}),
            Layer("--timeout", {} if timeout is None else {_TIMEOUT: _seconds_as_ms("--timeout", timeout)}),
            Layer("-X", on_purpose),
        ]
        variables = [
            Layer("KCLI_BOOTSTRAP_SERVER", _present("bootstrap.servers", environ.get("KCLI_BOOTSTRAP_SERVER"))),
            Layer("KCLI_TIMEOUT", _present(_TIMEOUT, _variable_as_ms(environ.get("KCLI_TIMEOUT")))),
            Layer("KCLI_SCHEMA_REGISTRY", _present(_REGISTRY, environ.get("KCLI_SCHEMA_REGISTRY"))),
            Layer("KCLI_PROPERTY", client_properties("KCLI_PROPERTY", _lines(environ.get("KCLI_PROPERTY", "")))),
        ]
        if (
            given.command_config == ""
        ):  # such as "$CONFIG" of a script: the default cluster is not the one that it means
            raise ConfigError("--command-config: the path must not be empty")
        file = given.command_config or environ.get("KCLI_COMMAND_CONFIG")
        names_cluster = file or any("bootstrap.servers" in layer.properties for layer in (*options, *variables))
        chosen = _choose_profile(env, given.profile, names_cluster=bool(names_cluster))
        layers = [Layer("default", {"bootstrap.servers": DEFAULT_BOOTSTRAP})]
        if chosen.applied is not None:
            file = file or chosen.applied.command_config
        if file:
            layers.append(Layer(file, read_properties(file, env), is_file=True))
        if chosen.applied is not None:
            from kcli.client.librdkafka import canonical

            layers.append(Layer(f"profile {chosen.applied.name}", canonical(chosen.applied.properties)))
        layers += variables + options
        form = _output("--output", given.output)
        default = _output("KCLI_OUTPUT", environ.get("KCLI_OUTPUT") or None)

        common = cls(env, layers, form or default, form, given.verbose or env.is_verbose, on_purpose, chosen, given)
        _warn_of_override(env, common)
        return common

    def with_profile(self, name: str) -> "Common":
        """Return the options with another profile."""
        return Common.from_options(self.env, self._options._replace(profile=name))

    @cached_property
    def properties(self) -> dict[str, str]:
        """Kafka's properties, ready for a configuration. Passwords are taken from their sources, once: the password
        command of the profile, a prompt, files and variables.
        """
        profile, fetched = self.profile.applied, {}
        if profile is not None and profile.password_command:
            from kcli.cli.profile.effects import add_password

            fetched = dict(add_password(profile, self.given).items() - self.given.items())
        return complete_properties(self.env, self.given, self._of_file, fetched)

    def before_change(self, change: str) -> None:
        """Refuse a change of the cluster if the profile is for reading only; otherwise report the profile and the
        cluster in the colour of the profile, if it has one. `change` is the command.
        """
        if self.profile.chosen is not None:
            from kcli.cli.profile.effects import report_change

            servers, applies = self.given["bootstrap.servers"], self.profile.applied is not None
            report_change(self.env, self.profile.chosen, servers, change, applies=applies)

    def config(self, cls: "type[C] | None" = None, **strongest: str | int | bool) -> "C":
        """Return a configuration of this class (default `ClientConfig`) from the properties.

        `strongest` are the command's own settings, with underscores for dots; they override the rest, except that -X
        overrides a property that has an option. An unknown key is reported once, and so are properties without effect
        in a file, which may be shared with other clients; one on the command line is an error. Automatic topic creation
        is always off, so that no command creates a topic by reading its metadata.
        """
        if cls is None:
            from kcli.client.config import ClientConfig

            cls = cast("type[C]", ClientConfig)
        own = {key.replace("_", "."): value for key, value in strongest.items()}
        own = {key: value for key, value in own.items() if not self._is_overridden(key, value)}
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
            self._warn(key, self.properties.get(key, ""))
        self._check_effect(config)
        return config

    def _is_overridden(self, key: str, value: object) -> bool:
        """Return whether -X sets a property that an option of the command sets, too."""
        if key not in self.on_purpose or key not in _OPTION_OF:
            return False
        if key == "group.id" and self.given[key] != value:
            raise ConfigError(f"-X group.id={self.given[key]} contradicts --group {value}; give one of them")
        return True

    def _check_effect(self, config: "ClientConfig") -> None:
        no_effect = config.no_effect
        for key in no_effect.keys() & set(self.on_purpose):
            from kcli.client.config import without_effect
            from kcli.client.librdkafka import TUNING

            if key in TUNING:
                continue
            raise without_effect(f"-X {key}", no_effect[key])
        if self.properties.get("allow.auto.create.topics") == "true":
            no_effect["allow.auto.create.topics"] = "kcli creates no topic by reading it"
        if names := sorted(no_effect.keys() - self._warned):
            self._warned.update(names)
            self.env.report(f"kcli: note: without effect in kcli: {', '.join(names)}")

    def _warn(self, key: str, value: str) -> None:
        from kcli.client.config import is_property_name, nearest_name

        near = nearest_name(key)
        if key not in self.on_purpose and not is_property_name(key, value):
            if "" not in self._warned:
                self._warned.add("")
                what = "a line that is not a property (not shown: it may contain a password) is ignored"
                advice = "check for a missing backslash at the end of the line before"
                self.env.report(f"kcli: warning: {self.sources.get(key, 'properties')}: {what}; {advice}")
            return
        hint = f"; did you mean {near}?" if near else ""
        self.env.report(f"kcli: warning: unknown property {key} is ignored{hint}")

    def connect(self, config: "ClientConfig | None" = None) -> "ConsumerNetworkClient":
        """Return a client for these options; use it in a `with closing(...)`. It sends nothing before the first
        request.
        """
        from kcli.client.connect import connect

        client = connect(config or self.config(), self.env.clock)
        if self.profile.chosen is not None and self.profile.chosen.read_only:
            from kcli.cli.profile.effects import refusal

            client.refusal = refusal(self.profile.chosen)
        client.metrics.on_throttled = self._report_throttling
        if self.verbose:
            client.report_secured(lambda protection: self.env.report(f"kcli: {protection}"))
            client.on_close = lambda: self.env.report(f"kcli: {client.metrics.summary()}")
        return client

    def _report_throttling(self, throttle_ms: float) -> None:
        seconds = throttle_ms / 1000
        self.env.report(f"kcli: note: quotas of the brokers slow kcli down: {seconds:.1f} s so far (throttle_time_ms)")

    def name_registry(self, url: str | None) -> None:
        """Make the value of --schema-registry a property. Call it before `config`: the registry may use ssl.*."""
        if url is not None and _REGISTRY not in self.on_purpose:
            self.properties[_REGISTRY] = url

    def registry(self, url: str | None = None) -> "SchemaRegistry | None":
        """Return the schema registry; None if no URL is given. `url` is the value of --schema-registry.

        Its schemas are kept on disk, in the folder of the user's caches. Call it before `config`, as `name_registry`.
        """
        from kcli.schemas.disk_cache import cache_folder
        from kcli.schemas.registry_client import SchemaRegistry

        self.name_registry(url)
        properties = self.properties
        folder = cache_folder(self.env.environ)
        try:
            return SchemaRegistry.of_properties(properties, folder=folder, timeout_ms=self.timeout_ms)
        except ConfigError as error:
            if url is None or _REGISTRY in self.on_purpose or not str(error).startswith(_REGISTRY):
                raise
            raise ConfigError(f"--schema-registry{str(error).removeprefix(_REGISTRY)}") from None

    @property
    def time_limit(self) -> dict[str, str]:
        """The time limit as a property, for a client that is made elsewhere, as in Spark."""
        return {_TIMEOUT: str(round(self.timeout_ms))}

    def deadline_ms(self) -> float:
        """Return the deadline of a command that starts now: for the library's `deadline_ms` arguments."""
        return self.env.clock.now_ms() + self.timeout_ms


class Layer(NamedTuple):
    """Properties of one source; `source` names it for the user, and `is_file` is true for a properties file."""

    source: str
    properties: dict[str, str]
    is_file: bool = False


class ChosenProfile(NamedTuple):
    """The profile of a command; None: no profile.

    `applied` is the profile if its properties apply, which those of the current one do not if another cluster is named.
    """

    chosen: "Profile | None" = None
    applied: "Profile | None" = None


def _choose_profile(env: Environment, given: str | None, *, names_cluster: bool) -> ChosenProfile:
    """Return the profile of -P, else of KCLI_PROFILE, else the current one of the file."""
    where, name = "--profile", given
    if name is None:
        where, name = "KCLI_PROFILE", env.environ.get("KCLI_PROFILE") or None
    if name == "none" or (name is None and not os.path.exists(env.profile_file or "")):
        return ChosenProfile()
    from kcli.cli.profile.profile_file import path_of, read_file, report_exposure

    file = read_file(path_of(env))
    if name is None and file.current in (None, "none"):
        return ChosenProfile()
    report_exposure(env, file)
    if name is not None:
        profile = file.profile(name, where)
        return ChosenProfile(profile, profile)
    profile = file.profile(file.current or "", "current")
    if names_cluster and env.stderr_is_terminal:
        env.report(
            f"kcli: note: profile {profile.name} does not apply to this cluster; use -P {profile.name} to apply it"
        )
    return ChosenProfile(profile, None if names_cluster else profile)


def _warn_of_override(env: Environment, common: Common) -> None:
    """Report that the environment leads a profile, and its password, to another cluster."""
    profile, source = common.profile.applied, common.sources["bootstrap.servers"]
    if profile is None or source not in ("KCLI_BOOTSTRAP_SERVER", "KCLI_PROPERTY"):
        return
    if profile.bootstrap_servers not in (None, common.given["bootstrap.servers"]):
        env.report(f"kcli: warning: {source} overrides bootstrap-servers of profile {profile.name}")


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def _present(name: str, value: str | None) -> dict[str, str]:
    return {name: value} if value else {}


def _variable_as_ms(text: str | None) -> str | None:
    return _seconds_as_ms("KCLI_TIMEOUT", text) if text else None


_TIMEOUT = "default.api.timeout.ms"
_REGISTRY = "schema.registry.url"

#: The option of commands that use a schema registry; `Common.registry` takes its value.
RegistryOption: TypeAlias = Annotated[
    str | None,
    Option(
        "--schema-registry",
        metavar="URL",
        help="Use this schema registry. [KCLI_SCHEMA_REGISTRY; schema.registry.url of the profile or file]",
    ),
]

SchemaFileOption: TypeAlias = Annotated[
    list[str] | None,
    Option(
        "--schema-file",
        metavar="[key=|value=]FILE",
        help="Schema of -s in a file (.avsc, .proto, .json), without a registry or beside it. [value]",
    ),
]
MessageOption: TypeAlias = Annotated[
    list[str] | None,
    Option("--message", metavar="[key=|value=]NAME", help="Protobuf message in the schema file. [value; the first]"),
]

# The options of commands that set a property of Kafka: an error names the option, not the property.
_OPTION_OF = {
    "acks": "--acks",
    "compression.type": "--compression",
    "group.id": "--group",
    "group.instance.id": "--instance-id",
    "group.protocol": "--protocol",
    "isolation.level": "--isolation-level",
}


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
        from kcli.settings import invalid_number

        raise invalid_number(_TIMEOUT, text, "a whole number of milliseconds, such as 30000") from None


def _output(where: str, value: str | None) -> str | None:
    if value is not None:
        check_choice(where, value, OUTPUTS)
    return value


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


def parse_names(option: str, texts: Iterable[str], known: Collection[str]) -> list[str]:
    """Return the names in an option that is repeated or has commas, in any case. `ConfigError` for an unknown one."""
    by_case = {name.lower(): name for name in known}
    names = [name.strip() for text in texts for name in text.split(",")]
    for name in names:
        if name.lower() not in by_case:
            raise ConfigError(f"{option}: '{name}' is not valid; use {', '.join(known)}")
    return [by_case[name.lower()] for name in names]


def check_interval(seconds: float) -> None:
    """Raise `ConfigError` unless `seconds` is a usable --interval."""
    if not 0 < seconds < 1e6:
        raise ConfigError(f"--interval: {seconds:g} is not valid; use a number of seconds above 0")


SIDES: "tuple[Side, Side]" = ("key", "value")


def by_side(option: str, texts: Iterable[str], default: "Sequence[Side]") -> "dict[Side, str]":
    """Return the values of an option of the form `[key=|value=]TEXT` by side; without a side, TEXT is for `default`.

    Raise ConfigError for an empty text and for two values of one side.
    """
    chosen: dict[Side, str] = {}
    for given in texts:
        text = given.partition("=")[2]
        sides: Sequence[Side] = [side for side in SIDES if given.startswith(f"{side}=")]
        if not sides:
            sides, text = default, given
        if not text:
            raise ConfigError(f"{option}: '{given}' is not valid; use {option} [key=|value=]...")
        for side in sides:
            if side in chosen:
                raise ConfigError(f"{option}: {side} is given twice, as {chosen[side]} and as {text}")
            chosen[side] = text
    return chosen
