"""`kcli undo`: restore what a command changed."""

from kcli.cli.environment import Environment
from kcli.cli.options import Common
from kcli.cli.undo.restore import UndoOptions, restore


def run(env: Environment, common: Common, options: UndoOptions) -> int:
    """Restore what a command changed: committed offsets, or settings of topics.

    Without --execute the command only shows the plan. It is that of `kcli offsets undo` or `kcli topic undo`, which
    take the snapshots of one kind. Every --execute that changes or deletes offsets or settings saves the old values
    under $XDG_STATE_HOME/kcli/snapshots, by default ~/.local/state/kcli/snapshots. An undo does so too, and can be
    undone by its id. A plan that an undo cannot restore says so before --execute: records, topics, partitions, members
    and transactions.
    """
    return restore(env, common, options, None)
