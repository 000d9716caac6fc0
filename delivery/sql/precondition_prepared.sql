-- Before PostgreSQL 14.1 every prepared transaction has a name that its session did
-- not have, as recovered ones have later: nothing tells them apart (advance.sql).
SELECT format('PostgreSQL %s gives prepared transactions new names: behind a gap order waits until none at all is prepared',
              current_setting('server_version')),
       'upgrade to 14.1 or newer, or have producers not prepare their transactions'
 WHERE current_setting('server_version_num')::int < 140001
   AND current_setting('max_prepared_transactions')::int > 0
