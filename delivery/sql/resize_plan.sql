-- What resize.sql would find and do.
SELECT count(*) FILTER (WHERE p.before <> p.partition_key), count(*) FILTER (WHERE p.after <> p.partition_key)
  FROM ({placed}) AS p
