"""A broker in a thread of this process: started, restarted, killed and closed by whoever embeds it."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kcli.broker.control import Control, Hook, SeenRequest
from kcli.errors import KcliError

if TYPE_CHECKING:
    from kcli.broker.broker import Broker

T = TypeVar("T")

JOIN_S = 30.0


class EmbeddedBroker:
    """One broker of Kafka's protocol on loopback, with a loop thread of its own.

    Settings are Kafka's broker properties, with underscores for dots: `EmbeddedBroker(num_partitions=3)`. Without a
    `data_dir` its data are in a temporary directory, which goes when the broker is closed. The port is the kernel's
    choice unless `port` is given, and stays the same over restarts. Use it in a `with`, or call `start` and `close`.

    All methods may be called from any thread but the broker's own.
    """

    def __init__(self, data_dir: str | Path | None = None, *, port: int = 0, **settings: Any) -> None:
        self._temporary = None if data_dir else tempfile.TemporaryDirectory(prefix="kcli-broker-")
        self.data_dir = Path(data_dir or self._temporary.name)  # type: ignore[union-attr]
        self._port = port
        self._settings = {name.replace("_", "."): _text(value) for name, value in settings.items()}
        self._broker: Broker | None = None
        self._thread: threading.Thread | None = None
        self._leave = threading.Event()
        self._failure: BaseException | None = None
        self._control = Control()

    def __repr__(self) -> str:
        state = "running" if self.is_running else "failed" if self._failure else "stopped"
        return f"<EmbeddedBroker 127.0.0.1:{self._port} {state} {self.data_dir}>"

    def __enter__(self) -> EmbeddedBroker:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    @property
    def address(self) -> str:
        """`127.0.0.1:port`, what clients call `bootstrap.servers`; it outlives restarts. ValueError before a start."""
        if not self._port:
            raise ValueError("the broker has no address before its first start")
        return f"127.0.0.1:{self._port}"

    bootstrap_servers = address

    # ---- its life ----

    def start(self) -> None:
        """Start on the data there are; ready for clients when this returns.

        ValueError when it runs already, ConfigError for settings that make no sense or a directory that is in use,
        OSError when the port is taken.
        """
        from kcli.broker.broker import Broker
        from kcli.broker.config import BrokerConfig

        if self.is_running:
            raise ValueError(f"{self!r} is started")
        own = {"log.dirs": str(self.data_dir), "listeners": f"PLAINTEXT://127.0.0.1:{self._port}"}
        broker = Broker(BrokerConfig.from_properties({**self._settings, **own}))
        broker.control = self._control
        broker.start()
        self._port = broker.port
        self._broker, self._failure = broker, None
        self._leave.clear()
        looping = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(broker, looping), name="kcli-broker", daemon=True)
        self._thread.start()
        looping.wait()

    def _run(self, broker: Broker, looping: threading.Event) -> None:
        try:
            try:
                broker.poll(0)  # from here on the loop is this thread's
            finally:
                looping.set()
            broker.run(self._leave.is_set)
        except BaseException as failure:
            self._failure = failure
            broker.kill()

    def stop(self) -> None:
        """Shut down as SIGTERM does: everything is flushed and marked as clean. No harm when it is down."""
        self._end(lambda broker: broker.shutdown(clean=True))

    def kill(self) -> None:
        """End as kill -9 does: connections break, nothing is flushed, no marker is left. No harm when it is down."""
        self._end(lambda broker: broker.kill())

    def restart(self) -> None:
        """Stop if it runs, and start again with the same address and data. After `kill()` that is a recovery."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop for good; temporary data are removed. Raises what ended the loop, if it ended by itself."""
        self.stop()
        if self._temporary is not None:
            self._temporary.cleanup()
        if self._failure is not None:
            raise KcliError(f"the embedded broker failed: {self._failure!r}") from self._failure

    def _end(self, how: Callable[[Broker], None]) -> None:
        broker, thread, self._broker, self._thread = self._broker, self._thread, None, None
        if broker is None or thread is None:
            return
        self._leave.set()
        broker.wakeup()
        thread.join(JOIN_S)
        if thread.is_alive():
            raise KcliError(f"the embedded broker's loop did not end within {JOIN_S:.0f} s")
        if self._failure is None:
            how(broker)

    # ---- what it holds ----

    def call(self, ask: Callable[[Broker], T]) -> T:
        """`ask(broker)` in the broker's thread, between two requests; returns or raises what it does."""
        broker = self._broker
        if broker is None or not self.is_running:
            raise KcliError(f"{self!r} does not run") from self._failure
        return broker.call(lambda: ask(broker))

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, Any] | None = None) -> str:
        """Create a topic, and return its name. `BrokerError` as CreateTopics would answer.

        `configs` are Kafka's topic properties, by their own names or with underscores.
        """
        texts = {key.replace("_", "."): _text(value) for key, value in (configs or {}).items()}
        self.call(lambda broker: broker.cluster.create_topic(name, partitions, 1, texts, validate_only=False))
        return name

    @property
    def topics(self) -> dict[str, int]:
        """The partition counts of all topics but Kafka's internal ones."""
        return self.call(
            lambda broker: {
                topic.name: topic.partitions for topic in broker.cluster.topics.values() if not topic.is_internal
            }
        )

    # ---- what it is told to do ----

    def intercept(self, api: str | int, answer: Hook, times: int | None = None) -> None:
        """Let `answer(request, context)` decide about requests of an API: Kafka's name of it (`"Produce"`) or its key.

        It is called in the broker's thread, and returns None to let a request pass (to observe it), a response message
        to send that instead, or what `kcli.broker.control` offers: DROP, SILENCE, Delay(ms). With `times` it is asked
        about so many requests. It outlives restarts. ValueError for an unknown API.
        """
        self._in_the_loop(lambda: self._control.on(api, answer, times))

    def forget_interceptions(self, api: str | int | None = None) -> None:
        """Let the requests of an API, or of all, pass again."""
        self._in_the_loop(lambda: self._control.off(api))

    @property
    def requests(self) -> list[SeenRequest]:
        """The last thousand requests: API, version, client id, connection; oldest first."""
        return self._in_the_loop(lambda: list(self._control.requests))

    def _in_the_loop(self, ask: Callable[[], T]) -> T:
        return self.call(lambda _: ask()) if self.is_running else ask()


def _text(value: Any) -> str:
    """A property's value as Kafka writes it: booleans are lower-case."""
    return str(value).lower() if isinstance(value, bool) else str(value)
