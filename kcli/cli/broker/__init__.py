"""`kcli broker run`: the embedded broker as a process, and a cluster of such processes.

`run` turns options into broker properties, starts `Broker` in this thread, and stops it at a signal. For `--nodes` it
calls `run_cluster`, which writes the properties of each process into the cluster's directory and starts the processes
with `supervisor`; `cluster_processes` has their code. This family is the one that imports `kcli.broker`, and only while
a command runs (`kcli demo` starts it as a process of its own).

**Non-obvious**

- The only line on stdout is the address, or the addresses of all nodes, printed when they answer: scripts wait for this
  line.
- The first SIGINT or SIGTERM shuts down cleanly and writes the checkpoints; a second one ends the processes at once.
- A broker whose data directory fails ends with status 1, because serving on could lose acknowledged records.
- The processes of a cluster are forked after their modules are imported, which saves time and most of their memory. The
  process that forks has no threads.
- A cluster's directory stores its settings: `--node K`, or the same `--nodes` again, needs no other option.
"""
