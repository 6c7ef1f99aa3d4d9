package main

// stores are mistakes in the stores, and in what they are asked to guarantee.
var stores = []mutant{
	{
		mistake: "a takeover keeps the version", file: "store/memstore/rows.go",
		old: `		in.Version++
		in.Holder = p.Holder
`,
		new: `		in.Holder = p.Holder
`,
		pkg: explored, test: scenario + "an outcome asked for by another process", faults: 0,
		breaks: "Always: ",
	},
	{
		mistake: "a heartbeat bumps the version", file: "store/memstore/rows.go",
		old: `		in.Beats++
`,
		new: `		in.Beats++
		in.Version++
`,
		pkg: ".", test: "TestSlowUploadsLive/the beats are a third of the TTL apart, and change nothing else",
		breaks: "Max difference between",
	},
	{
		mistake: "an abort ignores the state", file: "store/memstore/rows.go",
		old: `		if in.State != store.Uploading || (in.Version != p.Version && !isHolder(in, p.Holder)) {
			return false
		}
		abandon(`,
		new: `		if in.Version != p.Version && !isHolder(in, p.Holder) {
			return false
		}
		abandon(`,
		pkg: explored, test: scenario + "CommitWith beside a sweeper", faults: 1,
		breaks: "dangling: ",
	},
	{
		mistake: "an abort ignores the version", file: "store/memstore/rows.go",
		old: `		if in.State != store.Uploading || (in.Version != p.Version && !isHolder(in, p.Holder)) {
			return false
		}
		abandon(`,
		new: `		if in.State != store.Uploading {
			return false
		}
		abandon(`,
		pkg: explored, test: scenario + "an impatient first attempt", faults: 1,
		breaks: "latest attempt lost",
	},
	{
		mistake: "zero rows taken for success", file: "store/memstore/objects.go",
		old: `	if !in.Expect.Holds(current) {
		return nil, nil, conflict(in.Key, in.Expect, current)
	}
`,
		new: "",
		pkg: explored, test: scenario + "two creators of one key", faults: 0,
		breaks: "both creators were told",
	},
	{
		mistake: "a commit ignores the intent's version", file: "store/memstore/objects.go",
		old: `	case in.Version != p.Version:
		return store.ErrTakenOver
`,
		new: "",
		pkg: explored, test: scenario + "an outcome asked for by another process", faults: 0,
		breaks: "Always: ",
	},
	{
		mistake: "a commit ignores the intent's state", file: "store/memstore/objects.go",
		old: `	case in.State == store.Abandoned:
		return store.ErrIntentLost
	case in.State == store.Held:
		return store.ErrHeld
	case in.Version != p.Version:
		return store.ErrTakenOver
`,
		new: "",
		pkg: explored, test: scenario + "create against a sweeper", faults: 1,
		breaks: "dangling: ",
	},
	{
		mistake: "a commit ignores expires_at", file: "store/memstore/objects.go",
		old: `	case !in.ExpiresAt.After(now):
`,
		new: `	case false:
`,
		pkg: "store/memstore", test: "TestRows/Commit/after ExpiresAt is ErrIntentLost, though nobody has claimed it",
		breaks: "in chain but got nil",
	},
	{
		mistake: "the version begins at 1 again", file: "store/memstore/objects.go",
		old: "Version: t.rows.nextVersion(0, now, p.Random), Blob",
		new: "Version: 1, Blob",
		pkg: explored, test: scenario + "delete, re-create, stale token", faults: 0,
		breaks: "changed by a stale token",
	},
	{
		mistake: "a replaced blob is not retired", file: "store/memstore/objects.go",
		old: `		t.retire(current, now.Add(p.ReadGrace))
	}
`,
		new: `	}
`,
		pkg: explored, test: scenario + "two replaces", faults: 0,
		breaks: "orphan: ",
	},
	{
		mistake: "a deleted object's blob is not retired", file: "store/memstore/objects.go",
		old: `	t.retire(current, now.Add(p.ReadGrace))
	t.objects`,
		new: `	t.objects`,
		pkg: explored, test: scenario + "an upload that was repeated, then deleted", faults: 0,
		breaks: "orphan: ",
	},
	{
		mistake: "a delete ignores the version", file: "store/memstore/objects.go",
		old: `	case !want.Holds(current):
		return nil, nil, conflict(key, want, current)
	}
	return current`,
		new: `	case current == nil:
		return nil, nil, conflict(key, want, current)
	}
	return current`,
		pkg: explored, test: scenario + "delete, re-create, stale token", faults: 0,
		breaks: "Always: ",
	},
	{
		mistake: "a conflict leaves the intent committed", file: "store/memstore/objects.go",
		old: `	if !in.Expect.Holds(current) {
`,
		new: `	if !in.Expect.Holds(current) {
		stuck := *in
		stuck.State, stuck.Version = store.Sealing, in.Version+1
		t.rows.putIntent(&stuck)
`,
		pkg: explored, test: scenario + "a conflict after which the caller commits anyway", faults: 0,
		breaks: "orphan: ",
	},
	{
		mistake: "several uploads without a savepoint", file: "store/memstore/tx.go",
		old: `			t.intents, t.objects, t.retired = t.intents[:intents], t.objects[:objects], t.retired[:retired]
			return blocker, err
`,
		new: `			_ = retired
			return blocker, err
`,
		pkg: explored, test: scenario + "a conflict after which the caller commits anyway", faults: 0,
		breaks: "a conflict left a trace",
	},
	{
		mistake: "zero rows believed at once", file: "store/memstore/rows.go",
		old: `		case <-blocker.ended:
`,
		new: `		case <-blocker.ended:
			return fmt.Errorf("zero rows: %w", store.ErrConflict)
`,
		pkg: "store/memstore", test: "TestRows/Relook/Always while another replaces",
		breaks: "zero rows: conflict",
	},
	{
		mistake: "a claim does not fence", file: "store/memstore/sweep.go",
		old: `			if row.State == store.Uploading {
				abandon(&next, now)
				next.Attempts = 1
			}
			next.DueAt = now.Add(p.Lease)
			r.putIntent(&next)
`,
		new: `			next.DueAt = now.Add(p.Lease)
			kept := next
			r.putIntent(&kept)
			if row.State == store.Uploading {
				abandon(&next, now)
				next.Attempts = 1
			}
`,
		pkg: explored, test: scenario + "create against a sweeper", faults: 0,
		breaks: "dangling: ",
	},
	{
		mistake: "a claim takes what a transaction has locked", file: "store/memstore/sweep.go",
		old: ` && r.locks[rowID{intentRow, row.ID}] == nil {
			due`,
		new: ` {
			due`,
		pkg: explored, test: scenario + "CommitTx rolled back and committed again", faults: 0,
		breaks: "dangling: ",
	},
	{
		mistake: "a claim takes what is held", file: "store/memstore/sweep.go",
		old: `store.Uploading, store.Abandoned, store.Sealing) {
			next := *row
			next.Attempts++
			if row.State == store.Uploading {`,
		new: `store.Uploading, store.Abandoned, store.Sealing, store.Held) {
			next := *row
			next.Attempts++
			if row.State == store.Uploading || row.State == store.Held {`,
		pkg: explored, test: scenario + "a database restored by the runbook", faults: 0,
		breaks: "no end after",
	},
	{
		mistake: "a settlement without compare-and-set", file: "store/memstore/sweep.go",
		old: "if row == nil || row.State != s.State || row.Version != s.Version || r.locks[rowID{intentRow, s.ID}] != nil {",
		new: "if row == nil {",
		pkg: "store/memstore", test: "TestRows/Settle/at another version changes nothing",
		breaks: "done at 1",
	},
	{
		mistake: "a create overwrites", file: "store/memstore/blobs.go",
		old: `	if b.blobs[p.Name] != nil {
		return store.Blob{}`,
		new: `	if false {
		return store.Blob{}`,
		pkg: explored, test: scenario + "one idempotency key, different bytes", faults: 1,
		breaks: "dangling: ",
	},
	{
		mistake: "the pending guard is not enforced", file: "store/memstore/blobs.go",
		old: `	case pending && found.info.Sealed:
`,
		new: `	case false:
`,
		pkg: explored, test: scenario + "a database restored and nothing held", faults: 0,
		breaks: "guard: ",
	},
	{
		mistake: "a Put Blob without If-None-Match", file: "azstore/create.go",
		old: `		HTTPHeaders:      &blob.HTTPHeaders{BlobContentType: &u.p.ContentType},
		AccessConditions: createOnly(),
	})
	body.detach()`,
		new: `		HTTPHeaders:      &blob.HTTPHeaders{BlobContentType: &u.p.ContentType},
	})
	body.detach()`,
		pkg: explored, test: inAzure + "one idempotency key, different bytes", faults: 1,
		breaks: "dangling: ",
	},
	{
		mistake: "a Put Block List without If-None-Match", file: "azstore/create.go",
		old: `		HTTPHeaders:      &blob.HTTPHeaders{BlobContentType: &u.p.ContentType},
		AccessConditions: createOnly(),
	})
	switch`,
		new: `		HTTPHeaders:      &blob.HTTPHeaders{BlobContentType: &u.p.ContentType},
	})
	switch`,
		pkg: "azstore", test: "TestCreateOnlyHoldsAboveTheSDKsLimit",
		breaks: `"already exists" in chain but got nil`,
	},
	{
		mistake: "a reader is not pinned to the ETag", file: "azstore/open.go",
		old: `	etag := azcore.ETag(p.ETag)
`,
		new: `	etag := azcore.ETagAny
`,
		pkg: "azstore", test: "TestOpenIsPinned",
		breaks: "in chain but got nil",
	},
	{
		mistake: "a delete without its guard", file: "azstore/delete.go",
		old: "DeleteSnapshots: &include, AccessConditions: guard(d.IntentID, d.Pending)}",
		new: "DeleteSnapshots: &include}",
		pkg: "azstore", test: "TestDeleteTellsEachElementItsOwn",
		breaks: `"refused by the guard" in chain but got nil`,
	},
	{
		mistake: "several uploads in SQL without a savepoint", file: "sqlstore/objects.go",
		old: `			if _, undo := q.Exec(ctx, back); undo != nil {
				return nil, fmt.Errorf("%w: back to savepoint: %w", store.ErrTxUnusable, undo)
			}
`,
		new: `			_ = back
`,
		pkg: "integration/sqlstore", test: "TestRowStoreOnOneConnection/memory/Tx/of several uploads a conflict leaves no trace of any",
		breaks: `+ State: (store.State) (len=7) "sealing"`,
	},
	{
		mistake: "zero rows in SQL believed at once", file: "sqlstore/objects.go",
		old: `		o, ok, err := s.engine.commitObject(ctx, q, step.CommitParams, step.facts)
		if err != nil || ok {
			return o, err
		}
`,
		new: `		o, ok, err := s.engine.commitObject(ctx, q, step.CommitParams, step.facts)
		if err == nil && !ok {
			err = &store.ConflictError{Key: step.Key}
		}
		if err != nil || ok {
			return o, err
		}
`,
		pkg: "integration/sqlstore", test: "TestRowStoreOnOneConnection/memory/Commit/again is ErrAlreadyCommitted and changes nothing",
		breaks: `in chain: "conflict on`,
	},
}
