package azstore

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/blobtx/blobtx/store"
)

const (
	day               = 24 * time.Hour
	defaultDays       = 7
	defaultMaxPending = 48 * time.Hour // the core's default
	lifecycleMargin   = 2              // days beyond MaxPending
)

// LifecycleOptions chooses what LifecyclePolicy writes.
type LifecycleOptions struct {
	// Container limits the rule to one container. Empty: every container of
	// the account, which is right only where nobody else uses a tag named
	// state.
	Container string

	// Prefix is the Store's Options.Prefix. It needs Container. Defaults to
	// none.
	Prefix string

	// Days is the age in whole days from which a blob that is still pending is
	// deleted. It must leave MaxPending and two days more, for sweepers that
	// were down, or store.ErrInvalid. Defaults to 7, or more if MaxPending asks
	// for it.
	Days int

	// MaxPending is the Coordinator's option of that name. Defaults to 48
	// hours.
	MaxPending time.Duration
}

// LifecyclePolicy returns a management policy in JSON with one rule, which
// deletes blobs that still have the tag state=pending after some days. It is a
// backstop for what nothing else can find: the sweeper does the work. Apply it
// with "az storage account management-policy create --policy", after merging it
// with rules that are there already.
//
// A rule may take a day to take effect and another to run. Do not keep one
// while a database is being restored: a committed blob whose seal is owed looks
// pending. See "Lifecycle management policy structure", Azure Blob Storage.
//
// A nil o is the zero value. Errors: store.ErrInvalid.
func LifecyclePolicy(o *LifecycleOptions) ([]byte, error) {
	var opts LifecycleOptions
	if o != nil {
		opts = *o
	}
	if opts.MaxPending == 0 {
		opts.MaxPending = defaultMaxPending
	}
	least := int(opts.MaxPending/day+min(opts.MaxPending%day, 1)) + lifecycleMargin
	if opts.Days == 0 {
		opts.Days = max(defaultDays, least)
	}
	switch {
	case opts.MaxPending < 0:
		return nil, fmt.Errorf("lifecycle policy: MaxPending of %v is negative: %w", opts.MaxPending, store.ErrInvalid)
	case opts.Days < least:
		return nil, fmt.Errorf("lifecycle policy: %d days must be at least %d (MaxPending of %v and %d days): %w",
			opts.Days, least, opts.MaxPending, lifecycleMargin, store.ErrInvalid)
	case opts.Prefix != "" && opts.Container == "":
		return nil, fmt.Errorf("lifecycle policy: Prefix needs Container: %w", store.ErrInvalid)
	}

	type tag struct {
		Name  string `json:"name"`
		Op    string `json:"op"`
		Value string `json:"value"`
	}
	type rule struct {
		Enabled    bool   `json:"enabled"`
		Name       string `json:"name"`
		Type       string `json:"type"`
		Definition struct {
			Actions struct {
				BaseBlob struct {
					Delete struct {
						Days int `json:"daysAfterCreationGreaterThan"`
					} `json:"delete"`
				} `json:"baseBlob"`
			} `json:"actions"`
			Filters struct {
				BlobTypes   []string `json:"blobTypes"`
				PrefixMatch []string `json:"prefixMatch,omitempty"`
				Tags        []tag    `json:"blobIndexMatch"`
			} `json:"filters"`
		} `json:"definition"`
	}
	r := rule{Enabled: true, Name: "blobtx-pending", Type: "Lifecycle"}
	r.Definition.Actions.BaseBlob.Delete.Days = opts.Days
	filters := &r.Definition.Filters
	filters.BlobTypes = []string{"blockBlob"}
	filters.Tags = []tag{{tagState, "==", statePending}}
	if opts.Container != "" {
		filters.PrefixMatch = []string{opts.Container + "/" + opts.Prefix}
	}
	return json.MarshalIndent(map[string][]rule{"rules": {r}}, "", "  ")
}
