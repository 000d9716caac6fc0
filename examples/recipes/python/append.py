"""State and event in one transaction, with psycopg2: python3 append.py <../events.jsonl

With psycopg 3 only the import differs: import psycopg as psycopg2.
"""
import json
import os
import sys

import psycopg2

STATE = "INSERT INTO recipe_orders VALUES (%(stream)s, %(type)s) ON CONFLICT (name) DO UPDATE SET status = excluded.status"
ONE = """SELECT outbox_append(%(stream)s, %(type)s, %(payload)s,
    topic => %(topic)s, partition_key => %(key)s, expected_version => %(expected)s)"""
# The function for many publishes bytes as they are and tells new from duplicate, as outbox_append_one_bytes does without the partition.
MANY = """SELECT sequence, partition_key, duplicate FROM outbox_append_batch(
    ARRAY[%(stream)s], ARRAY[%(type)s], ARRAY[%(payload)s::bytea], topics => ARRAY[%(topic)s], partition_keys => ARRAY[%(key)s],
    expected_versions => ARRAY[%(expected)s::bigint], dedupe_keys => ARRAY[%(message)s])"""

conn = psycopg2.connect(os.environ["DATABASE_URL"])
for line in sys.stdin.buffer:
    # Here the payload is a text that holds JSON. Pass such a text as it is, a dict through json.dumps.
    event = {"topic": None, "key": None, "expected": None} | json.loads(line)
    try:
        cur = conn.cursor()
        cur.execute(STATE, event)
        if "message" in event:
            cur.execute(MANY, event | {"payload": event["payload"].encode()})  # bytes become bytea
        else:
            cur.execute(ONE, event)
        appended = cur.fetchone()
        if sys.argv[1:] == ["rollback"]:
            raise RuntimeError("asked to roll back")
        conn.commit()
        print(*appended)
    except BaseException as error:
        conn.rollback()
        if not isinstance(error, psycopg2.Error) or error.diag.sqlstate != "OB001":
            raise
        print("OB001")  # the stream has another version than expected
conn.close()
