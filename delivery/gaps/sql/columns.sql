SELECT a.attname, a.atttypid::regtype::text
  FROM pg_attribute AS a
 WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped
