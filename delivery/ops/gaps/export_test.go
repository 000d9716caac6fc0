package gaps

import "context"

// Audit makes one audit now.
func (a *Auditor) Audit(ctx context.Context) (left int64, err error) { return a.audit(ctx, ctx) }
