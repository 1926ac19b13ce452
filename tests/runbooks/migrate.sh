#!/usr/bin/env bash
# migrate.sh OLD-GROUP NEW-GROUP FILE
# Save all positions of a group in FILE, and have a second group begin there, once it is certain that this can be done.
# 0: done; 3: no such group; 4: the new group is running; anything else: see FILE, nothing is lost.
set -euo pipefail
old=$1 new=$2 file=$3

kcli group wait "$old" --until empty --timeout 60
kcli offsets export "$old" > "$file.part"
mv "$file.part" "$file"
kcli offsets apply "$file" --to-group "$new" > /dev/null
kcli offsets apply "$file" --to-group "$new" --execute
