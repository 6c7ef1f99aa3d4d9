package main

// Where the scenarios are explored.
const (
	explored = "blobtxtest"
	scenario = "TestScenarios/"
	inAzure  = "TestAzureScenarios/"
)

func all() []mutant { return append(protocol, stores...) }

// protocol are mistakes in the protocol itself.
var protocol = []mutant{
	{
		mistake: "an idempotency key answers whatever the condition", file: "intent.go",
		old: "if in.Expect != p.Expect && in.State != store.Abandoned {",
		new: "if false {",
		pkg: ".", test: "TestAnIdempotencyKeyNamesOneRequest/another condition, over a finished one",
		breaks: `idempotency key reused for a different request" in chain but got nil`,
	},
	{
		mistake: "a repeated insert adopts the retry that took over", file: "intent.go",
		old: "if in.Holder != p.Holder { // a retry has met the row whose insert we are repeating",
		new: "if false {",
		pkg: ".", test: "TestARepeatedInsertDoesNotAdoptTheHolderWhoTookItOver/the first attempt is told so, and the second goes on",
		breaks: `intent taken over by a later attempt" in chain but got nil`,
	},
	{
		mistake: "an own replay is not recognised", file: "intent.go",
		old: `	case store.Sealing, store.Done:
`,
		new: `	case store.Sealing, store.Done:
		return Intent{}, false, ErrIdempotencyReuse
`,
		pkg: ".", test: "TestAReplayReturnsTheStoredObjectAndReadsNothing/done",
		breaks: "idempotency key reused",
	},
	{
		mistake: "an unclear create is taken for success without a look", file: "upload.go",
		old: `		blob, absent, lookErr := c.look(ctx, in, body)
`,
		new: `		_ = body.Drain(ctx)
		size, sum, _ := body.Sum()
		blob, absent, lookErr := Blob{Name: in.BlobName, Size: size, SHA256: sum, ContentType: contentType}, false, error(nil)
`,
		pkg: explored, test: scenario + "create against a sweeper", faults: 1,
		breaks: "dangling: ",
	},
	{
		mistake: "a status code alone says that the bytes are there", file: "upload.go",
		old: `		blob, absent, lookErr := c.look(ctx, in, body)
`,
		new: `		if errors.Is(err, ErrExists) {
			size, sum, _ := body.Sum()
			return Blob{Name: in.BlobName, Size: size, SHA256: sum, ContentType: contentType}, nil
		}
		blob, absent, lookErr := c.look(ctx, in, body)
`,
		pkg: explored, test: scenario + "one idempotency key, different bytes", faults: 1,
		breaks: "dangling: ",
	},
	{
		mistake: "a first try under the own name is taken for another's", file: "upload.go",
		old: `		blob, absent, lookErr := c.look(ctx, in, body)
`,
		new: `		if errors.Is(err, ErrExists) {
			return Blob{}, ErrForeignBlob
		}
		blob, absent, lookErr := c.look(ctx, in, body)
`,
		pkg: ".", test: "TestATakeoverFencesTheFirstHolder/its commit",
		breaks: "foreign",
	},
	{
		mistake: "a look does not compare the bytes", file: "upload.go",
		old: "if info.Size != size || info.SHA256 != sum {",
		new: "if false {",
		pkg: ".", test: "TestAnIdempotencyKeyNamesOneRequest/other bytes under the name before there is a result: of the same length",
		breaks: "in chain but got nil",
	},
	{
		mistake: "a look does not compare the intent", file: "upload.go",
		old: "if info.IntentID != in.ID {",
		new: "if false {",
		pkg: ".", test: "TestAForeignBlobIsNeverTouched",
		breaks: `"foreign blob" in chain but got nil`,
	},
	{
		mistake: "the empty blob that clears a name is taken for an upload", file: "upload.go",
		old: `if info.SHA256 == "" { // the empty blob`,
		new: "if false { // the empty blob",
		pkg: ".", test: "TestAnEmptyBlobThatClearsANameIsNobodysUpload/the upload was lost, not its key reused",
		breaks: `in chain: "blobtx: upload`,
	},
	{
		mistake: "an upload does not ask whether its intent lives", file: "upload.go",
		old: `	if !in.Committed() {
		// It may`,
		new: `	if false {
		// It may`,
		pkg: ".", test: "TestAnIntentThatWaitedInAQueue/swept away meanwhile is refused before a byte is read",
		breaks: "in chain but got nil",
	},
	{
		mistake: "a heartbeat's answer is ignored", file: "keepalive.go",
		old: `		default:
			k.end(err)
		}
`,
		new: `		default:
			k.again(c.opts.IntentTTL / 12)
		}
`,
		pkg: ".", test: "TestAnUploadEndsWhenItsIntentIsLost/a retry took it over",
		breaks: "is not less than",
	},
	{
		mistake: "silence is taken for a lease until the end of life", file: "keepalive.go",
		old: `	if end := k.confirmed.Add(k.lease); end.Before(k.last) {
		return end
	}
`,
		new: "",
		pkg: ".", test: "TestAnUploadEndsWhenItsIntentIsLost/the database refuses for longer than IntentTTL",
		breaks: `intent lost: the upload was abandoned" in chain but got nil`,
	},
	{
		mistake: "an own retry is read as a conflict", file: "commit.go",
		old: `		outcome, settleErr := c.settle(ctx, ups)
`,
		new: `		outcome, settleErr := Outcome{}, error(nil)
		if errors.Is(err, ErrAlreadyCommitted) {
			return nil, err
		}
`,
		pkg: explored, test: scenario + "two creators of one key", faults: 1,
		breaks: "lie: ",
	},
	{
		mistake: "an unknown commit is told as a failure", file: "commit.go",
		old: `			return nil, fmt.Errorf("%w; commit: %w", settleErr, err)`,
		new: `			return nil, err`,
		pkg: ".", test: "TestAnUnknownCommitNeverLeadsToADelete/Put loses everything from the commit on",
		breaks: `expected: "outcome unknown"`,
	},
	{
		mistake: "an own takeover is taken for another's", file: "commit.go",
		old: "case refused(err) && !errors.Is(err, ErrTakenOver), ",
		new: "case refused(err), ",
		pkg: ".", test: "TestNotCommittedIsFinalForEveryEarlierAttempt/a takeover of one's own that lands after the next commit began hurts nobody",
		breaks: "fenced out by itself",
	},
	{
		mistake: "sealed before the commit", file: "commit.go",
		old: `		objects, err = c.rows.CommitObjects(ctx, c.commitParams(ups))
`,
		new: `		for _, up := range ups {
			in := up.current()
			if err := c.blobs.Seal(ctx, in.BlobName, in.ID); err != nil {
				return nil, err
			}
		}
		objects, err = c.rows.CommitObjects(ctx, c.commitParams(ups))
`,
		pkg: explored, test: scenario + "create against a sweeper", faults: 1,
		breaks: "held: ",
	},
	{
		mistake: "the old blob is deleted before the commit", file: "commit.go",
		old: `		objects, err = c.rows.CommitObjects(ctx, c.commitParams(ups))
`,
		new: `		for _, up := range ups {
			if old, err := c.rows.GetObject(ctx, up.current().Key); err == nil {
				c.deleteBlobs(ctx, []store.DeleteBlob{{Name: old.Blob.Name, IntentID: old.IntentID}})
			}
		}
		objects, err = c.rows.CommitObjects(ctx, c.commitParams(ups))
`,
		pkg: explored, test: scenario + "two replaces", faults: 0,
		breaks: "dangling: ",
	},
	{
		mistake: "a commit ends with its caller", file: "commit.go",
		old: `	ctx, cancel := detached(ctx, commitBound)
	defer cancel()
`,
		new: `	ctx, cancel := context.WithTimeout(ctx, commitBound)
	defer cancel()
`,
		pkg: ".", test: "TestCommitOnceBegunDoesNotEndWithTheCaller/commit objects",
		breaks: "context canceled",
	},
	{
		mistake: "CommitWith believes a nil without reading", file: "commitwith.go",
		old: "if failure == nil && fnErr == nil && c.confirmed(ctx, ups, objects) {",
		new: "if failure == nil && fnErr == nil {",
		pkg: explored, test: scenario + "CommitWith whose function swallows the error of COMMIT", faults: 1,
		breaks: "lie: ",
	},
	{
		mistake: "CommitWith believes an error without settling", file: "commitwith.go",
		old: `	// The uploads went into a transaction whose end is not known.
`,
		new: `	if fnErr != nil {
		return nil, fnErr
	}
`,
		pkg: explored, test: scenario + "CommitWith beside a sweeper", faults: 1,
		breaks: "lie: ",
	},
	{
		mistake: "CommitWith takes a look's no for an answer", file: "commitwith.go",
		old: `	outcome, err := c.settle(settleCtx, ups)
	switch {`,
		new: `	outcome, err := Outcome{}, error(nil)
	_ = settleCtx
	switch {`,
		pkg: explored, test: scenario + "CommitWith beside a sweeper", faults: 1,
		breaks: "lie: ",
	},
	{
		mistake: "Settle by SELECT", file: "settle.go",
		old: `		in, err := c.takeOver(ctx, store.TakeOverParams{ID: own.ID, Version: own.Version, Holder: own.Holder, TTL: c.opts.IntentTTL})
`,
		new: `		var in Intent
		found, err := c.rows.GetIntents(ctx, []string{own.ID})
		if len(found) > 0 {
			in = found[0]
		} else if err == nil {
			err = ErrNotFound
		}
`,
		pkg: explored, test: scenario + "Settle against the late commit", faults: 1,
		breaks: "lie: ",
	},
	{
		mistake: "Outcome by SELECT", file: "settle.go",
		old: `		if in.State == store.Uploading {
			in, err = c.takeOver(ctx, store.TakeOverParams{ID: id, Version: in.Version, Holder: holder, TTL: c.opts.IntentTTL})
		}
`,
		new: `		if in.State == store.Uploading {
			return Outcome{}, nil
		}
`,
		pkg: explored, test: scenario + "an outcome asked for by another process", faults: 1,
		breaks: "Always: ",
	},
	{
		mistake: "compensation without a fence", file: "abort.go",
		old: "return c.rows.Abandon(ctx, store.AbandonParams{ID: in.ID, Version: in.Version, Holder: in.Holder})",
		new: `now := *in
		now.State = store.Abandoned
		return now, nil`,
		pkg: explored, test: scenario + "CommitWith beside a sweeper", faults: 1,
		breaks: "dangling: ",
	},
	{
		mistake: "abort after an unknown outcome", file: "put.go",
		old: "!bodyFailed(why) && (errors.Is(why, ErrOutcomeUnknown) || errors.Is(why, ErrTakenOver))",
		new: "!bodyFailed(why) && errors.Is(why, ErrTakenOver)",
		pkg: ".", test: "TestAnUnknownCommitNeverLeadsToADelete/Put, which touches nothing then, and keeps nothing alive",
		breaks: `actual : "abandoned"`,
	},
	{
		mistake: "an abort ends with the client that left", file: "abort.go",
		old: "ctx, cancel := detached(ctx, cleanBound)",
		new: "ctx, cancel := context.WithTimeout(ctx, cleanBound)",
		pkg: ".", test: "TestAbort/cleans up although the client has left",
		breaks: "context canceled",
	},
	{
		mistake: "an abort deletes under an intent it took over", file: "intent.go",
		old: "return strings.HasPrefix(in.Holder, c.instance+byInsert)",
		new: `return strings.HasPrefix(in.Holder, "")`,
		pkg: ".", test: "TestAbort/after a takeover only fences",
		breaks: `actual : map[string]int{"abandon":1, "delete blobs":1}`,
	},
	{
		mistake: "no quarantine", file: "sweep.go",
		old: `		return store.ToWatch, c.opts.Quarantine, true
`,
		new: `		return store.ToGone, 0, true
`,
		pkg: explored, test: scenario + "create against a sweeper", faults: 1,
		breaks: "orphan: ",
	},
	{
		mistake: "the sweeper deletes without the pending guard", file: "sweep.go",
		old: "IntentID: in.ID, Pending: true, ClearStaged: !in.Watched})",
		new: "IntentID: in.ID, ClearStaged: !in.Watched})",
		pkg: explored, test: scenario + "a database restored and nothing held", faults: 0,
		breaks: "guard: ",
	},
	{
		mistake: "a guard's refusal is held without a look", file: "sweep.go",
		old: `	if errors.Is(err, ErrGuardRefused) {
		info,`,
		new: `	if errors.Is(err, ErrGuardRefused) {
		return store.ToHeld, 0, err.Error()
		info,`,
		pkg: ".", test: "TestAGuardsRefusalIsHeldAfterALook/but not for the look fails",
		breaks: "Held:1, Failed:0}",
	},
	{
		mistake: "an object without its blob is sealed all the same", file: "sweep.go",
		old: `		case rowErr == nil && object.Blob.Name == in.BlobName:
`,
		new: `		case rowErr == nil && object.Blob.Name == "":
`,
		pkg: ".", test: "TestSweepingSealsThatAreOwed/a missing blob named by the object under new version is held and reported, never due again",
		breaks: "Sealed:1, Deleted:0, Forgotten:0, Held:0",
	},
	{
		mistake: "a retired name is not watched", file: "sweep.go",
		old: "if s.To, s.In, answered = c.deleted(err, r.Watched); !answered {",
		new: `if s.To, s.In, answered = c.deleted(err, r.Watched); answered {
			s.To = store.ToGone
		} else {`,
		pkg: ".", test: "TestACreateThatLandsAfterItsBlobWasRetiredIsFound/within the quarantine",
		breaks: "still says pending",
	},
	{
		mistake: "a reader follows the row after bytes were shown", file: "open.go",
		old: `		case r.pinned:
			return &ConflictError{Key: r.object.Key, Want: want, Current: &current}
`,
		new: "",
		pkg: explored, test: scenario + "open and range read during a replace", faults: 0,
		breaks: "a reader saw a mixture",
	},
	{
		mistake: "missing bytes are taken for a replace", file: "open.go",
		old: `		case current.Blob.Name == blob.Name && current.Blob.ETag == blob.ETag:
			return fmt.Errorf("blob %q: %w: %v", blob.Name, ErrCorrupt, err) // not a conflict: the row stands
`,
		new: "",
		pkg: ".", test: "TestAnObjectWithoutItsBytesIsCorrupt/missing, read with io.ReadAll",
		breaks: "replaced faster than it can be read",
	},
	{
		mistake: "a broad delete", file: "delete.go",
		old: `			exact = IfVersion(current.Version)
`,
		new: `			exact, _ = want, current
`,
		pkg: explored, test: scenario + "delete, re-create, stale token", faults: 1,
		breaks: "changed by a stale token",
	},
	{
		mistake: "an unknown delete is told as a conflict", file: "delete.go",
		old: `			case unclear != nil: // a conflict, perhaps with our own earlier attempt: not ErrConflict
				return Object{}, fmt.Errorf("%w: an earlier attempt may have done it: %w; %v", ErrOutcomeUnknown, unclear, err)
`,
		new: `			case unclear != nil:
				return Object{}, err
`,
		pkg: ".", test: "TestAnUnknownDeleteIsNoConflict/whose reply was lost",
		breaks: `in chain: "blobtx: delete \"k\": conflict`,
	},
	{
		mistake: "a restore that holds nothing", file: "blobtxtest/restore.go",
		old: `		if hold && in.State == store.Uploading {
`,
		new: `		if false {
`,
		pkg: explored, test: scenario + "a database restored by the runbook", faults: 0,
		breaks: "restore: ",
	},
	{
		mistake: "a watched name is created again to clear it", file: "sweep.go",
		old: "ClearStaged: !in.Watched",
		new: "ClearStaged: true",
		pkg: explored, test: inAzure + "a watched name is looked at again", faults: 2,
		breaks: "orphan: ",
	},
}
