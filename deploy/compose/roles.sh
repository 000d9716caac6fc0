#!/bin/bash
# Makes the roles, or gives them their rights once there are tables, and lets migrator and worker log in.
set -euo pipefail
PGPASSWORD=$(cat /run/secrets/postgres_password)
export PGPASSWORD
password() { cut -d: -f5 "/run/secrets/$1_pgpass"; }

psql -v ON_ERROR_STOP=1 --quiet --file /roles.sql
psql -v ON_ERROR_STOP=1 --quiet -v migrator="$(password migrator)" -v worker="$(password worker)" <<'SQL'
ALTER ROLE postrider_migrator LOGIN PASSWORD :'migrator';
ALTER ROLE postrider_worker LOGIN PASSWORD :'worker';
-- The monitors of the workers show the audit, too.
GRANT postrider_monitor TO postrider_worker;
SQL
