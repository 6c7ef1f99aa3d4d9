package broken

import (
	"time"

	"github.com/blobtx/blobtx/store"
	"github.com/blobtx/blobtx/store/memstore"
)

// RowMistakes are the row stores with a mistake.
var RowMistakes = []RowMistake{
	{
		Name: "ignores the version",
		Open: func(o memstore.RowsOptions) RowStore { return ignoresVersion{open(o)} },
		Fails: []string{
			"Commit/under a version that it had is refused",
			"Commit/under a version of what was deleted is refused",
			"Commit/under a version of what was deleted and made again is refused",
			"Delete/is refused where its condition does not hold",
			"Delete/again cannot remove a later object",
			"SetMetadata/is refused where its condition does not hold",
			"SetMetadata/again finds its own success in the conflict",
			"Relook/a version that another is about to replace",
			"Relook/a change of metadata while another replaces",
			"Race/of replacers of one version has one winner",
			"Race/of a replace, a delete and a change of one version has one winner",
		},
	},
	{
		Name: "a version column that never changes, as a rowversion on SQLite",
		Open: func(o memstore.RowsOptions) RowStore {
			o.NextVersion = func(current store.Version, clock time.Time, random uint32) store.Version {
				if current != 0 {
					return current
				}
				return store.NextVersion(current, clock, random)
			}
			return open(o)
		},
		Fails: []string{
			"Commit/a replaced object keeps its creation and changes the rest",
			"Commit/under a version that it had is refused",
			"Version/follows the clock and the caller's random bits where they are ahead",
			"Version/grows with every change, whatever the random bits",
			"Delete/is refused where its condition does not hold",
			"SetMetadata/replaces the metadata under a new version and nothing else",
			"SetMetadata/takes place under every condition that holds",
			"SetMetadata/is refused where its condition does not hold",
			"SetMetadata/again finds its own success in the conflict",
			"Relook/Always with nothing there yet, while another creates",
			"Relook/Always while another replaces",
			"Relook/a version that another is about to replace",
			"Relook/a version that another was about to replace and did not",
			"Relook/a change of metadata while another replaces",
			"Relook/two intents of one transaction meet another's",
			"Race/of replacers of one version has one winner",
			"Race/of a replace, a delete and a change of one version has one winner",
			"Race/of replacers under Always retires every blob but the last, once",
		},
	},
	{
		Name: "versions repeat after delete and re-create",
		Open: func(o memstore.RowsOptions) RowStore {
			o.NextVersion = func(current store.Version, _ time.Time, _ uint32) store.Version { return current + 1 }
			return open(o)
		},
		Fails: []string{
			"Insert/accepts every condition that holds",
			"Commit/under a version of what was deleted and made again is refused",
			"Version/of a new object is the clock and the caller's random bits",
			"Version/follows the clock and the caller's random bits where they are ahead",
			"Version/grows with every change, whatever the random bits",
			"Version/never repeats in a loop of create and delete",
			"Version/never repeats in a loop inside one transaction",
			"Delete/takes place under every condition that holds",
			"Delete/again cannot remove a later object",
			"SetMetadata/again finds its own success in the conflict",
			"Tx/a refused delete or change of metadata leaves no trace",
		},
	},
	{
		Name: "keys are compared without case",
		Open: func(o memstore.RowsOptions) RowStore {
			return &foldsKeys{rows: open(o), spelling: make(map[string]string)}
		},
		Fails: []string{
			"Keys/are compared byte for byte",
			"Keys/are looked up byte for byte",
			"List/is in the byte order of the keys",
			"List/takes a prefix byte for byte",
		},
	},
	{
		Name: "zero rows are believed at once",
		Open: func(o memstore.RowsOptions) RowStore { return believesZeroRows{open(o)} },
		Fails: []string{
			"Relook/Always with nothing there yet, while another creates",
			"Relook/Always while another replaces",
			"Relook/Always while another deletes",
			"Relook/a version that another is about to commit",
			"Relook/IfAbsent while another deletes",
			"Relook/a delete while another replaces",
			"Relook/two intents of one transaction meet another's",
			"Race/of replacers under Always retires every blob but the last, once",
			"Race/of commits of the same keys in other orders ends",
		},
	},
	{
		Name: "a commit of several is not atomic",
		Open: func(o memstore.RowsOptions) RowStore { return commitsOneByOne{open(o)} },
		Fails: []string{
			"Commit/of several uploads is all or none when one is in conflict",
			"Commit/of several uploads is all or none when one is lost",
		},
	},
	{
		Name: "a commit ignores the expiry",
		Open: func(o memstore.RowsOptions) RowStore { return ignoresExpiry{open(o), o.Now} },
		Fails: []string{
			"Commit/after ExpiresAt is ErrIntentLost, though nobody has claimed it",
		},
	},
	{
		Name: "a repeated commit passes for a new one",
		Open: func(o memstore.RowsOptions) RowStore { return commitsAgain{open(o)} },
		Fails: []string{
			"Commit/again is ErrAlreadyCommitted and changes nothing",
		},
	},
	{
		Name: "a replaced blob is not recorded as retired",
		Open: func(o memstore.RowsOptions) RowStore { return losesReplaced{open(o)} },
		Fails: []string{
			"Insert/a blob name of another intent, object or retired name is ErrInvalid",
			"Commit/records the replaced blob as retired, once, due after the read grace",
			"Commit/several uploads become visible, in the order asked for",
			"Delete/is refused where its condition does not hold",
			"Tx/takes effect at its commit and not before",
			"Tx/rolled back leaves nothing, and the same upload may be committed again",
			"Relook/Always with nothing there yet, while another creates",
			"Relook/Always while another replaces",
			"Relook/a version that another was about to replace and did not",
			"Relook/two intents of one transaction meet another's",
			"Race/of replacers of one version has one winner",
			"Race/of replacers under Always retires every blob but the last, once",
		},
	},
	{
		Name: "a conflict leaves half in the transaction",
		Open: func(o memstore.RowsOptions) RowStore { return leavesHalf{open(o)} },
		Fails: []string{
			"Tx/a conflict leaves no trace",
			"Tx/of several uploads a conflict leaves no trace of any",
		},
	},
	{
		Name: "several uploads in a transaction without a savepoint",
		Open: func(o memstore.RowsOptions) RowStore { return noSavepoint{open(o)} },
		Fails: []string{
			"Tx/of several uploads a conflict leaves no trace of any",
			"Tx/a lost intent leaves no trace",
			"Tx/an expired intent leaves no trace",
			"Tx/an intent taken over leaves no trace",
			"Tx/a held intent leaves no trace",
			"Tx/a repeated commit leaves no trace",
		},
	},
	{
		Name: "uncommitted rows are read",
		Open: func(o memstore.RowsOptions) RowStore {
			return &readsUncommitted{rows: open(o), dirty: make(map[string]store.Object)}
		},
		Fails: []string{
			"Tx/takes effect at its commit and not before",
		},
	},
	{
		Name: "a heartbeat bumps the version",
		Open: func(o memstore.RowsOptions) RowStore { return heartbeatBumps{open(o)} },
		Fails: []string{
			"Heartbeat/moves the deadline, counts a beat and changes nothing else",
			"Claim/turns an upload that is due into abandoned",
			"Heartbeat/does not wait for a locked row",
		},
	},
	{
		Name: "a take-over does not bump the version",
		Open: func(o memstore.RowsOptions) RowStore { return takeOverKeepsVersion{open(o)} },
		Fails: []string{
			"TakeOver/makes the caller the holder",
			"TakeOver/at an earlier version by another changes nothing",
			"TakeOver/fences the commit of an earlier version",
			"TakeOver/fences the heartbeat of an earlier version",
			"TakeOver/fences the abandon of an earlier version",
			"Abandon/at another version by another changes nothing",
			"Tx/an intent taken over leaves no trace",
			"Race/of a take-over and a commit has one winner",
		},
	},
	{
		Name: "an abandon ignores the state",
		Open: func(o memstore.RowsOptions) RowStore { return abandonsCommitted{open(o)} },
		Fails: []string{
			"Abandon/of an intent that is not uploading changes nothing and says its state",
		},
	},
	{
		Name: "an abandon keeps the idempotency key",
		Open: func(o memstore.RowsOptions) RowStore { return abandonKeepsKey{open(o)} },
		Fails: []string{
			"Abandon/makes it abandoned, due at once, its idempotency key free",
		},
	},
	{
		Name: "a claim hands a row out twice",
		Open: func(o memstore.RowsOptions) RowStore { return claimsTwice{open(o)} },
		Fails: []string{
			"Claim/turns an upload that is due into abandoned",
			"Claim/hands an intent out once until its lease ends",
			"Claim/hands a retired name out once until its lease ends",
			"Claim/takes the longest due first, as many as the limit of each",
			"Claim/until a moment takes only what was due then",
			"Race/of claims hands every row to one",
		},
	},
	{
		Name: "a claim does not fence",
		Open: func(o memstore.RowsOptions) RowStore { return claimDoesNotFence{open(o)} },
		Fails: []string{
			"Claim/turns an upload that is due into abandoned",
			"Claim/fences the commit",
			"Claim/fences the holder",
			"Claim/begins to count anew for what it abandoned",
			"Race/of a claim and a commit has one winner",
		},
	},
	{
		Name: "a take-over does not wait for a commit in flight",
		Open: func(o memstore.RowsOptions) RowStore { return takeOverDoesNotWait{open(o), o.Now} },
		Fails: []string{
			"TakeOver/waits for a commit in flight and loses to it",
			"TakeOver/gives up with ErrBusy after seconds, as Abandon does, and changes nothing",
		},
	},
	{
		Name: "the condition is looked at before the idempotency key",
		Open: func(o memstore.RowsOptions) RowStore { return conditionFirst{open(o)} },
		Fails: []string{
			"Insert/again after a lost reply returns it although the object has come into being",
			"Insert/a known idempotency key is looked at before the condition",
		},
	},
	{
		Name: "a transaction goes on after an error",
		Open: func(o memstore.RowsOptions) RowStore { return goesOnInTx{open(o)} },
		Fails: []string{
			"Tx/any other error of a commit makes it unusable",
			"Tx/any other error of a delete makes it unusable",
			"Tx/any other error of a change of metadata makes it unusable",
		},
	},
	{
		Name: "a prefix is a LIKE pattern",
		Open: func(o memstore.RowsOptions) RowStore { return likesPrefix{open(o)} },
		Fails: []string{
			"List/takes a prefix byte for byte",
		},
	},
	{
		Name: "a settlement ignores the version",
		Open: func(o memstore.RowsOptions) RowStore { return settlesAnyVersion{open(o)} },
		Fails: []string{
			"Settle/at another version changes nothing",
			"Settle/again changes nothing",
			"Settle/of a batch takes what it can and says how many",
		},
	},
}

// BlobMistakes are the blob stores with a mistake.
var BlobMistakes = []BlobMistake{
	{
		Name: "a create overwrites",
		Open: func(b *memstore.Blobs) store.BlobStore { return overwrites{b, -1} },
		Fails: []string{
			"Create/refuses a name that is taken",
			"Create/refuses a name that is taken, above every threshold",
			"Create/refuses a name that is taken by a sealed blob",
			"Create/a race has one winner",
		},
	},
	{
		Name: "the create-only condition is dropped above a size",
		Open: func(b *memstore.Blobs) store.BlobStore { return overwrites{b, 100 << 10} },
		Fails: []string{
			"Create/refuses a name that is taken, above every threshold",
			"Create/a race has one winner",
		},
	},
	{
		Name: "a body is readable before it was checked",
		Open: func(b *memstore.Blobs) store.BlobStore { return unchecked{b} },
		Fails: []string{
			"Body/whose reader fails commits nothing and comes back as it is",
			"Body/that is not as declared is never readable",
			"Delete/that clears staged blocks leaves nothing and the name free",
		},
	},
	{
		Name: "a create goes on after it was cancelled",
		Open: func(b *memstore.Blobs) store.BlobStore { return goesOn{b} },
		Fails: []string{
			"Body/whose context is done at its end never becomes readable",
		},
	},
	{
		Name: "a delete ignores the guard",
		Open: func(b *memstore.Blobs) store.BlobStore { return unguarded{b} },
		Fails: []string{
			"Delete/refuses a blob of another intent",
			"Delete/refuses a sealed blob that should be pending",
			"Delete/of a mixed batch has an outcome for each",
			"Delete/that clears staged blocks keeps to the guard",
		},
	},
	{
		Name: "a delete takes absence for success",
		Open: func(b *memstore.Blobs) store.BlobStore { return deletesNothing{b} },
		Fails: []string{
			"Delete/of an absent blob is ErrBlobNotFound",
			"Delete/of a mixed batch has an outcome for each",
			"Delete/that clears staged blocks leaves nothing and the name free",
		},
	},
	{
		Name: "a seal ignores the intent",
		Open: func(b *memstore.Blobs) store.BlobStore { return sealsAny{b} },
		Fails: []string{
			"Seal/refuses a blob of another intent",
		},
	},
	{
		Name: "a reader is not pinned",
		Open: func(b *memstore.Blobs) store.BlobStore { return unpinned{b} },
		Fails: []string{
			"Open/under another ETag is ErrConflict",
		},
	},
	{
		Name: "a count of zero reads to the end, as in an SDK",
		Open: func(b *memstore.Blobs) store.BlobStore { return zeroIsAll{b} },
		Fails: []string{
			"Open/of at most no bytes reads nothing",
		},
	},
}
