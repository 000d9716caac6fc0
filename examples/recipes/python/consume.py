"""Each message's effect once, with psycopg2 and the inbox's SQL functions (docs/inbox-protocol.md).

Messages come as JSON lines, as ../../inboxtest hands them over; with a NATS client, deal() gets the same parts. With psycopg 3 only
the import differs: import psycopg as psycopg2.
"""
import base64
import json
import os
import sys
import uuid

import psycopg2

NAME, PROCESS = os.environ["INBOX_CONSUMER"], str(uuid.uuid4())
BEGIN = "SELECT verdict FROM inbox_begin(%(name)s, %(subject)s, %(stream_sequence)s, %(headers)s, %(payload)s, %(parked)s)"
FAILED = "SELECT inbox_failed(%(name)s, %(subject)s, %(stream_sequence)s, %(headers)s, %(payload)s, %(reason)s, %(parked)s)"
NEXT = "SELECT parked, subject, stream_sequence, headers, payload FROM inbox_next(%s, %s)"
EFFECT = "SELECT inboxtest_effect(%(Outbox-Stream)s, %(Outbox-Stream-Version)s, %(Outbox-Event-Id)s)"

conn = psycopg2.connect(os.environ["DATABASE_URL"])


def effect(cur, message):  # yours: all through cur, and an exception where it fails
    cur.execute(EFFECT, message["headers"])
    if cur.fetchone()[0]:
        raise ValueError("the effect failed")


def deal(message):
    """Returns when the message may be acknowledged. After an exception it must come again, before any later one."""
    args = message | {"name": NAME, "headers": json.dumps(message["headers"])}
    cur = conn.cursor()
    try:
        cur.execute(BEGIN, args)
        if cur.fetchone()[0] == "run":
            effect(cur, message)
    except psycopg2.OperationalError:  # the database is away, or there was a deadlock: the message is not to blame
        raise
    except Exception as error:
        conn.rollback()
        cur.execute(FAILED, args | {"reason": repr(error)})
    conn.commit()


def retry():
    while True:
        cur = conn.cursor()
        cur.execute(NEXT, (NAME, PROCESS))
        row = cur.fetchone()
        conn.commit()
        if row is None:
            return
        deal(dict(zip(("parked", "subject", "stream_sequence", "headers", "payload"), row)))


for line in sys.stdin.buffer:
    request = json.loads(line)
    if "retry" in request:
        retry()
    else:
        payload = base64.b64decode(request.get("payload", ""))
        deal({"parked": None, "subject": request["subject"], "stream_sequence": request["stream_sequence"],
              "headers": request["headers"], "payload": payload})
    print(json.dumps({"id": request["id"], "ack": True}), flush=True)
