-- Tables of a receiver, in a schema of its own beside those of its inbox.

CREATE TABLE IF NOT EXISTS remote_senders (
    sender       text PRIMARY KEY,
    token_sha256 bytea NOT NULL UNIQUE -- of a random token of 128 bits or more, so that a plain hash is enough
);
