#!/bin/sh
# Creates the cluster at the first start and runs the server. It follows the conventions of the official image
# as far as the tests use them: POSTGRES_PASSWORD is the superuser's, arguments go to the server.
set -eu
data=/var/lib/postgresql/data
if [ ! -e "$data/PG_VERSION" ]; then
  (umask 077 && printf '%s\n' "$POSTGRES_PASSWORD" >/tmp/password)
  initdb -D "$data" --username=postgres --pwfile=/tmp/password --auth=scram-sha-256 --encoding=UTF8 --no-locale --no-sync
  : >/tmp/password
  echo 'host all all all scram-sha-256' >>"$data/pg_hba.conf"
fi
[ "${1:-}" != postgres ] || shift
exec postgres -D "$data" -c unix_socket_directories=/tmp "$@"
