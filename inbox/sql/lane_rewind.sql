-- The stream has other messages now where this consumer has read: it goes back behind position $2.
UPDATE {schema}.inbox_lanes SET position = $2, position_time = 0, owner = NULL, lease_until = NULL, epoch = epoch + 1, tries = 0
 WHERE consumer = $1 AND position > $2
