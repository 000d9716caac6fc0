SELECT generation, call_id FROM {schema}.inbox_senders WHERE consumer = $1 AND sender = $2
