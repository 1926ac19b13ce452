#!/usr/bin/env bash
# rewind.sh GROUP DURATION COMMAND...
# Have a stopped group read the last DURATION again: move it back, run COMMAND, and put it where it was.
# 0: all done; 3: no such group; 4: the group is running; 5: out of time; 10: COMMAND failed, the group is back.
set -euo pipefail
group=$1 duration=$2
shift 2

status=0
told=$(kcli offsets reset "$group" --by-duration "$duration" --all-topics --if-no-record end --execute --output json) ||
    status=$?
case $status in
    0) ;;
    4) echo "stop the consumers of $group first" >&2; exit 4 ;;
    *) exit "$status" ;;
esac

"$@" || status=10
kcli group wait "$group" --until empty --timeout 60
before=$(sed -n '/"snapshot": "/{s/.*: "\(.*\)".*/\1/p;q}' <<< "$told")
if [ -n "$before" ]; then # else it was there already
    kcli offsets undo "$before" --execute
fi
exit "$status"
