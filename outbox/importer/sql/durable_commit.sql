SET LOCAL synchronous_commit TO DEFAULT
