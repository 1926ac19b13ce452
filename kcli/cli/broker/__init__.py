"""`kcli broker run`: the embedded broker as a process.

`run` is the one command that imports `kcli.broker`, and only while it runs (`kcli demo` starts it as a process of its
own). It turns options into broker properties, starts `Broker` in this thread, and stops it at a signal.

**Non-obvious**

- The only line on stdout is the address, printed when the broker answers: scripts wait for this line.
- The first SIGINT or SIGTERM shuts down cleanly and writes the checkpoints; a second one ends the process at once.
- A broker whose data directory fails ends with status 1, because serving on could lose acknowledged records.
"""
