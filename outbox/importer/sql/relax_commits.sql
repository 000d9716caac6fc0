SET synchronous_commit = off
