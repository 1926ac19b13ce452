#!/usr/bin/env bash
# gate.sh GROUP MAX-LAG SECONDS COMMAND...
# Run COMMAND (a deploy) as soon as a group is no more than MAX-LAG behind, or not at all.
# Its status is that of COMMAND; 5: still behind, or not there, after SECONDS.
set -euo pipefail
group=$1 lag=$2 seconds=$3
shift 3

status=0
kcli group wait "$group" --until "lag<=$lag" --interval 0.2 --timeout "$seconds" || status=$?
case $status in
    0) exec "$@" ;;
    5) echo "$group is behind: not deployed" >&2; exit 5 ;;
    *) exit "$status" ;;
esac
