"""Options of `kcli produce`."""

from typing import Annotated, NamedTuple

from kcli.cli.options import MessageOption, RegistryOption, SchemaFileOption, naming
from kcli.cli.parser import Argument, Option
from kcli.errors import ConfigError
from kcli.settings import invalid_value
from kcli.text import parse_time

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class InputOptions(NamedTuple):
    """The input and its format."""

    file: Annotated[
        list[str] | None, Argument(metavar="[FILE]...", help="Files to read; - or none: standard input.")
    ] = None
    input: Annotated[str, Option("--input", metavar="raw|jsonl", help="Format of the input.")] = "raw"
    delimiter: Annotated[
        str | None, Option("--delimiter", "-D", metavar="TEXT", help=r"Delimiter between records. [\n]")
    ] = None
    key_delimiter: Annotated[
        str | None,
        Option("--key-delimiter", "-K", metavar="TEXT", help="Delimiter between key and value."),
    ] = None
    key: Annotated[str | None, Option("--key", "-k", metavar="TEXT", help="Key of all records.")] = None


class EncodeOptions(NamedTuple):
    """The encoders of keys and values."""

    serde: Annotated[
        list[str] | None,
        Option(
            "--serde",
            "-s",
            metavar="[key=|value=]NAME",
            help="Encode keys, values or both as json, avro, protobuf, ...; repeatable.",
        ),
    ] = None
    schema_registry: RegistryOption = None
    schema_id: Annotated[
        list[str] | None,
        Option("--schema-id", metavar="[key=|value=]N", help="Encode with this schema of the registry. [value]"),
    ] = None
    subject: Annotated[
        list[str] | None,
        Option(
            "--subject",
            metavar="[key=|value=]NAME",
            help="Encode with the newest schema of this subject. [TOPIC-key, TOPIC-value]",
        ),
    ] = None
    schema_file: SchemaFileOption = None
    message: MessageOption = None
    register: Annotated[
        bool, Option("--register", help="Register the schema of --schema-file if its subject does not have it.")
    ] = False


class RecordOptions(NamedTuple):
    """The options that apply to all records."""

    partition: Annotated[
        int | None,
        Option("--partition", "-p", metavar="N", min=0, help="Write to this partition, regardless of the key."),
    ] = None
    header: Annotated[
        list[str] | None,
        Option("--header", "-H", metavar="NAME=VALUE", help="Header of all records; repeatable; NAME alone: null."),
    ] = None
    timestamp: Annotated[
        str | None,
        Option(
            "--timestamp",
            metavar="TIME",
            help="Timestamp of all records: ms or seconds since 1970, 2024-01-31T10:00Z, -1h. [now]",
        ),
    ] = None
    empty_as_null: Annotated[bool, Option("--empty-as-null", "-Z", help="Send empty keys and values as null.")] = False

    def timestamp_ms(self, now_ms: int) -> int | None:
        """Return the value of --timestamp, None if it is not given. ConfigError."""
        if self.timestamp is None:
            return None
        with naming("--timestamp"):
            return parse_time(self.timestamp.removeprefix("@"), now_ms)

    def headers(self) -> list[tuple[str, bytes | None]]:
        """Return the headers of all records. ConfigError."""
        return [_header(text) for text in self.header or []]


class ProducerOptions(NamedTuple):
    """Settings of the producer."""

    compression: Annotated[
        str | None,
        Option("--compression", "-z", metavar="|".join(CODECS), help="Compression codec of batches. [none]"),
    ] = None
    acks: Annotated[
        str | None, Option("--acks", metavar="0|1|all", help="Replicas that must store a record. [all]")
    ] = None
    transactional_id: Annotated[
        str | None,
        Option(
            "--transactional-id",
            metavar="ID",
            help="Store all records or none, in one transaction under this id; fences other producers with it.",
        ),
    ] = None

    def check(self) -> None:
        """Raise ConfigError for an empty transactional id."""
        if self.transactional_id is not None and not self.transactional_id.strip():  # stripped, it is no transaction
            raise ConfigError("--transactional-id must not be empty")


def _header(text: str) -> tuple[str, bytes | None]:
    """Parse NAME=VALUE, or NAME for a null value, as kcat does."""
    name, equals, value = text.encode("utf-8", "surrogateescape").partition(b"=")
    if not name:
        raise invalid_value("-H", text, "NAME=VALUE, or NAME for a null value; the name must not be empty")
    try:
        return name.decode(), value if equals else None
    except UnicodeDecodeError:
        raise ConfigError(f"-H: {text!r} is not valid; use a header name in UTF-8") from None
