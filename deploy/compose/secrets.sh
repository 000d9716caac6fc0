#!/usr/bin/env bash
# Makes the passwords of compose.yaml, those that are not there yet, in deploy/compose/secrets or the folder given.
# The folder is for its owner alone; in it everybody may read, as the containers run under users of their own.
set -euo pipefail
folder=${1:-$(dirname "$0")/secrets}
mkdir -p "$folder"
chmod 0700 "$folder"
umask 022

random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }

# keep NAME writes standard input into a new file.
keep() {
  if [ -e "$folder/$1" ]; then cat >/dev/null; else cat >"$folder/$1" && echo "made $folder/$1"; fi
}

random | keep postgres_password
for role in migrator worker; do echo "postgres:5432:app:postrider_$role:$(random)" | keep "${role}_pgpass"; done
random | keep prometheus_password
random | keep grafana_password
printf 'operate password admin %s\nread-only password prometheus %s\n' "$(random)" "$(cat "$folder/prometheus_password")" | keep monitor_users
