#!/usr/bin/env bash
# Makes the golden archives of this program's format: an archive with each kind of commit and object,
# and one that was cleaned.  Tests/Golden/make_archive.sh MORAINE
# An existing archive is not changed: it stands for programs in use.
set -euo pipefail
cd "$(dirname "$0")"
moraine="$1"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Writes the expected records of each keyspace of the store's present state.
expect() {
  local golden="$1" store="$2" position="$3"
  "$moraine" dump "$store" --format hex | sort -n -k 2,2 -t ' ' >"$golden/expected-$position.hex"
  "$moraine" dump "$store" --format hex --keyspace log | sort -n -k 2,2 -t ' ' \
    >"$golden/expected-$position.log.hex"
}

position() { python3 -c 'import json, sys; print(json.load(sys.stdin)["position"])'; }

make() {
  local name="$1" golden="archive-v1/$1" store="$scratch/$1" at
  [ -d "$golden" ] && { echo "$golden exists"; return 0; }
  mkdir -p "$golden/objects"
  local archive="file:$PWD/$golden/objects"
  for round in 1 2 3 4 5; do
    for number in $(seq 1 9); do
      "$moraine" put "$store" "key $number" "round $round of $name, value $number"
    done
    printf '{"id":"entry %s","text":"ordered"}\n' "$round" |
      "$moraine" load "$store" --key id --keyspace log --ordered >/dev/null
    "$moraine" delete "$store" "key $round"
    options=(--json)
    case "$round" in
      1) options+=(--create) ;;
      2 | 4) options+=(--checkpoint) ;;
      3) "$moraine" compact "$store" >/dev/null ;;
    esac
    # In assignments of their own: a failure within an argument would be lost.
    at=$("$moraine" archive "$store" "$archive" "${options[@]}" | position)
    expect "$golden" "$store" "$at"
    if [ "$name $round" = "cleaned 4" ]; then
      "$moraine" archive-clean "$archive" --keep 0s --keep-checkpoints 0s --keep-days 0
      rm "$golden"/expected-*.hex
      at=$("$moraine" archive-info "$archive" --json | position)
      expect "$golden" "$store" "$at"
    fi
  done
  # A store that was restored goes on in a new epoch.
  "$moraine" restore "$archive" "$scratch/$name-restored" >/dev/null
  "$moraine" put "$scratch/$name-restored" "after the restore" "of $name"
  at=$("$moraine" archive "$scratch/$name-restored" "$archive" --json | position)
  expect "$golden" "$scratch/$name-restored" "$at"
}

make plain
make cleaned
