-- Whether this role may read the audit; what follows may use its bitmap index.
SELECT has_table_privilege('{schema}.outbox_audit', 'SELECT') AND set_config('enable_bitmapscan', 'on', true) IS NOT NULL
