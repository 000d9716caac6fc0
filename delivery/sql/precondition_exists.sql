SELECT EXISTS (SELECT
                 FROM pg_attribute
                WHERE attrelid = to_regclass($1) AND attname = 'sequence' AND NOT attisdropped)
