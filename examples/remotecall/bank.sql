-- The business of the example: a bank, at home and, in schemas of their own, at the targets.

CREATE TABLE IF NOT EXISTS bank_accounts (
    account text PRIMARY KEY,
    balance bigint NOT NULL CHECK (balance >= 0)
);

CREATE TABLE IF NOT EXISTS bank_transfers (
    call_id bigint PRIMARY KEY,
    payer   text NOT NULL REFERENCES bank_accounts,
    amount  bigint NOT NULL CHECK (amount > 0),
    state   text NOT NULL DEFAULT 'under way' CHECK (state IN ('under way', 'settled', 'refunded', 'cancelled', 'unclear')),
    reason  text
);
