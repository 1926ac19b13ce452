"""`kcli demo`: a broker of its own, a shop's orders in it, and the real commands run on them."""

from __future__ import annotations

from typing import Annotated

from kcli.cli import exit_status
from kcli.cli.environment import Environment
from kcli.cli.parser import Option


def run(
    env: Environment,
    keep: Annotated[bool, Option("--keep", help="Leave the broker running, and say what to try.")] = False,
) -> int:
    """Start a broker, fill it with a shop's orders, and run the real commands on them.

    No Kafka is needed: the broker is kcli's own, on a free port, and is gone at the end with all it stored, unless
    --keep is given. Takes a few seconds.
    """
    from kcli.cli.demo.fill import TOPIC, fill
    from kcli.cli.demo.own_broker import own_broker
    from kcli.cli.demo.tour import to_try, tour

    out = env.stdout
    with own_broker(keep=keep) as (pid, address):
        out.write(f"A broker is running at {address}; it keeps nothing when it stops.\n")
        out.writelines(f"{line}\n" for line in fill(address, env.clock))
        out.write(f"\n$ export KCLI_BOOTSTRAP_SERVER={address}\n")
        failed = 0
        for step in tour(TOPIC):
            out.write(f"\n# {step.remark}\n$ {step.shown}\n")
            out.flush()
            status = _kcli(env, address, step.words, step.input)
            if status == exit_status.INTERRUPTED:
                return status
            failed += status != exit_status.DONE
        if keep:
            out.write(f"\nThe broker goes on; `kill {pid}` ends it and removes what it stored. Try:\n\n")
            out.writelines(f"  {line}\n" for line in to_try(address, TOPIC))
        else:
            out.write(
                "\nThat was all: the broker is stopped and its data removed. `kcli demo --keep` leaves it running.\n"
            )
    return exit_status.FAILED if failed else exit_status.DONE


def _kcli(env: Environment, address: str, words: tuple[str, ...], piped: str | None) -> int:
    """Run one kcli command as `kcli` itself would, and show all it says; its exit status."""
    from io import BytesIO, TextIOWrapper

    from kcli.cli.app import run as run_kcli

    stdin = TextIOWrapper(BytesIO(b"" if piped is None else f"{piped}\n".encode()), "utf-8")
    environ = {name: value for name, value in env.environ.items() if not name.startswith("KCLI_")}
    environ |= {"KCLI_BOOTSTRAP_SERVER": address}
    inner = Environment(stdin, env.stdout, env.stdout, environ, env.clock)
    status = run_kcli(words, inner)
    return exit_status.INTERRUPTED if inner.interrupted else status
