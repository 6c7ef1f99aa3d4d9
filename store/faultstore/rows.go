package faultstore

import (
	"context"
	"strings"

	"github.com/blobtx/blobtx/store"
)

// Rows returns r with every call a step of in. Retryable is not a step.
func Rows(r store.RowStore, in Injector) store.RowStore { return &rows{r, in} }

type rows struct {
	under store.RowStore
	in    Injector
}

func (r *rows) Check(ctx context.Context) error {
	_, err := call(ctx, r.in, Op{Store: "rows", Name: "check"}, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, r.under.Check(ctx)
	})
	return err
}

func (r *rows) InsertIntent(ctx context.Context, p store.InsertParams) (store.Intent, error) {
	return call(ctx, r.in, Op{Store: "rows", Name: "insert intent", Subject: p.Key, Write: true}, func(ctx context.Context) (store.Intent, error) {
		return r.under.InsertIntent(ctx, p)
	})
}

func (r *rows) TakeOver(ctx context.Context, p store.TakeOverParams) (store.Intent, error) {
	return call(ctx, r.in, Op{Store: "rows", Name: "take over", Subject: p.ID, Write: true}, func(ctx context.Context) (store.Intent, error) {
		return r.under.TakeOver(ctx, p)
	})
}

func (r *rows) Heartbeat(ctx context.Context, p store.HeartbeatParams) (store.Intent, error) {
	return call(ctx, r.in, Op{Store: "rows", Name: "heartbeat", Subject: p.ID, Write: true}, func(ctx context.Context) (store.Intent, error) {
		return r.under.Heartbeat(ctx, p)
	})
}

func (r *rows) Abandon(ctx context.Context, p store.AbandonParams) (store.Intent, error) {
	return call(ctx, r.in, Op{Store: "rows", Name: "abandon", Subject: p.ID, Write: true}, func(ctx context.Context) (store.Intent, error) {
		return r.under.Abandon(ctx, p)
	})
}

func (r *rows) GetIntents(ctx context.Context, ids []string) ([]store.Intent, error) {
	return call(ctx, r.in, Op{Store: "rows", Name: "get intents", Subject: strings.Join(ids, " ")}, func(ctx context.Context) ([]store.Intent, error) {
		return r.under.GetIntents(ctx, ids)
	})
}

func (r *rows) GetObject(ctx context.Context, key string) (store.Object, error) {
	return call(ctx, r.in, Op{Store: "rows", Name: "get object", Subject: key}, func(ctx context.Context) (store.Object, error) {
		return r.under.GetObject(ctx, key)
	})
}

func (r *rows) ListObjects(ctx context.Context, p store.ListParams) ([]store.Object, error) {
	return call(ctx, r.in, Op{Store: "rows", Name: "list objects", Subject: p.Prefix}, func(ctx context.Context) ([]store.Object, error) {
		return r.under.ListObjects(ctx, p)
	})
}

func (r *rows) CommitObjects(ctx context.Context, p []store.CommitParams) ([]store.Object, error) {
	return call(ctx, r.in, commitOp("rows", p, true), func(ctx context.Context) ([]store.Object, error) {
		return r.under.CommitObjects(ctx, p)
	})
}

func commitOp(in string, p []store.CommitParams, write bool) Op {
	return Op{Store: in, Name: "commit objects", Subject: each(p, func(p *store.CommitParams) string { return p.Key }), Write: write}
}

func (r *rows) DeleteObject(ctx context.Context, p store.DeleteParams) (store.Object, error) {
	return call(ctx, r.in, Op{Store: "rows", Name: "delete object", Subject: p.Key, Write: true}, func(ctx context.Context) (store.Object, error) {
		return r.under.DeleteObject(ctx, p)
	})
}

func (r *rows) SetObjectMetadata(ctx context.Context, p store.MetadataParams) (store.Object, error) {
	return call(ctx, r.in, Op{Store: "rows", Name: "set metadata", Subject: p.Key, Write: true}, func(ctx context.Context) (store.Object, error) {
		return r.under.SetObjectMetadata(ctx, p)
	})
}

func (r *rows) Claim(ctx context.Context, p store.ClaimParams) (store.Claimed, error) {
	return call(ctx, r.in, Op{Store: "rows", Name: "claim", Write: true}, func(ctx context.Context) (store.Claimed, error) {
		return r.under.Claim(ctx, p)
	})
}

func (r *rows) SettleIntents(ctx context.Context, s []store.IntentSettlement) (int, error) {
	op := Op{Store: "rows", Name: "settle intents", Subject: each(s, func(s *store.IntentSettlement) string { return s.ID }), Write: true}
	return call(ctx, r.in, op, func(ctx context.Context) (int, error) { return r.under.SettleIntents(ctx, s) })
}

func (r *rows) SettleRetired(ctx context.Context, s []store.RetiredSettlement) (int, error) {
	op := Op{Store: "rows", Name: "settle retired", Subject: each(s, func(s *store.RetiredSettlement) string { return s.BlobName }), Write: true}
	return call(ctx, r.in, op, func(ctx context.Context) (int, error) { return r.under.SettleRetired(ctx, s) })
}

func (r *rows) Forget(ctx context.Context, limit int) (int, error) {
	return call(ctx, r.in, Op{Store: "rows", Name: "forget", Write: true}, func(ctx context.Context) (int, error) {
		return r.under.Forget(ctx, limit)
	})
}

func (r *rows) Retryable(err error) bool { return r.under.Retryable(err) }
