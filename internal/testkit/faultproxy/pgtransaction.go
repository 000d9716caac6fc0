package faultproxy

// statements are the texts of a transaction's executed statements.
type statements map[string]struct{}

func (s statements) any(match func(string) bool) bool {
	for text := range s {
		if match(text) {
			return true
		}
	}
	return false
}

// transaction follows a connection's transaction, by the client's requests and, while none is in flight, by the server's status.
type transaction struct {
	open     bool // BEGIN was executed
	failed   bool // the server said so, and takes COMMIT as ROLLBACK
	unsynced bool // Execute since the last Sync or Query
	executed statements
}

// execute takes the statement of one Execute. A COMMIT commits the returned ones.
func (t *transaction) execute(sql string) (commits []statements, explicit bool) {
	t.unsynced = true
	return t.run(sql)
}

// query takes the text of one Query, with all its statements. Its end commits those behind the last COMMIT.
func (t *transaction) query(text string) (commits []statements, explicit bool) {
	for _, sql := range splitSQL(text) {
		committed, byCommit := t.run(sql)
		commits, explicit = append(commits, committed...), explicit || byCommit
	}
	return append(commits, t.sync()...), explicit
}

// sync ends an implicit transaction. It returns its statements, if any was executed.
func (t *transaction) sync() []statements {
	t.unsynced = false
	if t.open || len(t.executed) == 0 {
		return nil
	}
	return []statements{t.end()}
}

func (t *transaction) run(sql string) (commits []statements, explicit bool) {
	switch controlOf(sql) {
	case controlBegin:
		t.open = true
	case controlCommit:
		t.open = false
		return []statements{t.end()}, true
	case controlRollback:
		t.open = false
		t.end()
	default:
		if t.executed == nil {
			t.executed = statements{}
		}
		t.executed[sql] = struct{}{}
	}
	return nil, false
}

// end returns the executed statements and begins anew.
func (t *transaction) end() statements {
	executed := t.executed
	t.executed = nil
	return executed
}

// settle takes the status of a ReadyForQuery after which no answer is due: I for idle, T in a transaction, E in a failed one.
func (t *transaction) settle(status byte) {
	if t.unsynced {
		return
	}
	t.open, t.failed = status != 'I', status == 'E'
	if !t.open {
		t.executed = nil
	}
}
