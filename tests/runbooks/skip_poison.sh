#!/usr/bin/env bash
# skip_poison.sh GROUP TOPIC PARTITION OFFSET FILE
# Keep a record that a stopped group cannot digest in FILE, and have the group go on behind it.
# 0: skipped; 3: no such group or topic; 4: the group is running, or the offset is not in the log; 11: no such record.
set -euo pipefail
group=$1 topic=$2 partition=$3 offset=$4 file=$5

kcli consume "$topic" -p "$partition" -o "$offset:$((offset + 1))" --output jsonl > "$file"
if [ ! -s "$file" ]; then
    echo "there is no record $offset in $topic-$partition" >&2
    exit 11
fi
kcli offsets reset "$group" --topic "$topic:$partition" --to-offset "$((offset + 1))" --execute
