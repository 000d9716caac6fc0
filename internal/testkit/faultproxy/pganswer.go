package faultproxy

import "strings"

type pgServer struct{ *pgSession }

func (pgServer) name() string { return "what a PostgreSQL server sends" }

func (a pgServer) frame(data []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.encrypted:
		return 0, errEncrypted
	case a.encryption && data[0] != 'E': // an error means that it knows nothing of encryption
		return 1, nil
	default:
		return pgFrame(data, serverKinds)
	}
}

func (a pgServer) judge(frame []byte) ([]byte, action) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.encryption {
		a.encryption = false
		a.encrypted = len(frame) == 1 && frame[0] != 'N'
		return frame, nil
	}
	kind := frame[0]
	ready := kind == 'Z' && len(frame) > 5
	inAnswer := a.commit != nil && a.answered == a.commit.number-1
	if ready {
		a.answered++
		if a.answered == a.asked {
			a.tx.settle(frame[5])
		}
	}
	if !inAnswer {
		return frame, nil
	}
	c := a.commit
	c.answer = append(c.answer, frame...)
	switch {
	case kind == 'E':
		c.failed = true
	case kind == 'C':
		tag, _ := cString(frame[5:])
		c.tagged = c.tagged || strings.HasPrefix(tag, "COMMIT")
	case ready && c.committed(frame[5]):
		c.answer = nil
		return nil, a.strike(a.claimed, AfterServer)
	case ready:
		a.claimed.unclaim()
		a.claimed, a.commit = nil, nil
		return c.answer, nil
	}
	return nil, nil
}

// committed judges the answer when it is complete. An error may belong to a statement behind the commit, but that cannot be told.
func (c *pendingCommit) committed(status byte) bool {
	switch {
	case c.failed:
		return false
	case c.explicit:
		return c.tagged
	default:
		return status == 'I'
	}
}

// rest returns the answer to a commit that never became complete.
func (a pgServer) rest() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.commit == nil {
		return nil
	}
	kept := a.commit.answer
	a.commit.answer = nil
	return kept
}
