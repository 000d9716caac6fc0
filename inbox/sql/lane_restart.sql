-- Another stream of the same name: its sequences begin anew, and so do the lanes, under new epochs.
UPDATE {schema}.inbox_lanes SET position = 0, position_time = 0, owner = NULL, lease_until = NULL, epoch = epoch + 1, tries = 0 WHERE consumer = $1
