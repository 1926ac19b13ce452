#!/usr/bin/env bash
# incident.sh FROM TO FILE TOPIC...
# All records of an incident's window [FROM, TO) of some topics, as JSON lines in FILE; FILE is whole or not there.
# 0: whole; 3: a topic is not there; 5: not all could be read.
set -euo pipefail
from=$1 to=$2 file=$3
shift 3

trap 'rm -f "$file.part"' EXIT
kcli consume "$@" -o "@$from:@$to" --output jsonl > "$file.part"
mv "$file.part" "$file"
