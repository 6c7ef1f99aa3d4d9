package azfake

import (
	"net/http"
	"strings"
)

// grant is what a credential allows.
type grant struct {
	all     bool   // the account key, a bearer token, or an account that asks for nothing
	perms   string // of a SAS
	account bool   // an account SAS
	signed  bool   // with the account key itself
}

// may says whether one of the permissions is granted.
func (g grant) may(anyOf string) bool {
	return g.all || strings.ContainsAny(g.perms, anyOf)
}

// authorize checks the request's credential, then whether it covers the operation.
func (s *Server) authorize(c *call) *refusal {
	g, bad := s.credential(c)
	if bad != nil {
		return bad
	}
	c.grant = g
	if g.all {
		return nil
	}
	return permit(c)
}

func (s *Server) credential(c *call) (grant, *refusal) {
	header := c.header.Get("Authorization")
	switch {
	case c.query.Get("sig") != "":
		return s.checkSAS(c.query, address{c.container, c.blob}, c.now)
	case len(s.key) == 0, strings.HasPrefix(header, "Bearer "):
		return grant{all: true}, nil
	case header == "":
		return grant{}, refuse(http.StatusUnauthorized, "NoAuthenticationInformation",
			"Server failed to authenticate the request. Please refer to the information in the www-authenticate header.")
	}
	if !s.sharedKeyValid(c, header) {
		return grant{}, errAuthentication("the shared key signature does not match")
	}
	return grant{all: true, signed: true}, nil
}

func errAuthentication(why string) *refusal {
	return refuse(http.StatusForbidden, "AuthenticationFailed", "Server failed to authenticate the request: "+why)
}

func errPermission() *refusal {
	return refuse(http.StatusForbidden, "AuthorizationPermissionMismatch", "This request is not authorized to perform this operation using this permission.")
}

// needs holds, for each operation, the SAS permissions of which one suffices:
// "Create a service SAS", REST reference. Blob Batch is decided part by part,
// and Get Account Information is open to every SAS.
var needs = map[Op]string{
	OpGetBlob: "r", OpHeadBlob: "r", OpGetMetadata: "r", OpGetBlockList: "r",
	OpPutBlob: "cw", OpPutBlobFromURL: "cw", OpCopyBlob: "cw", OpCopyFromURL: "cw",
	OpPutBlock: "w", OpPutBlockFromURL: "w", OpPutBlockList: "w",
	OpSetMetadata: "w", OpSetHTTPHeaders: "w", OpSetTier: "w", OpBatchSetTier: "w",
	OpLeaseBlob: "w", OpUndelete: "w",
	OpGetTags: "t", OpSetTags: "t",
	OpDeleteBlob: "d", OpBatchDelete: "d",
	OpList: "l",
}

// accountNeeds is the same for the operations that only an account SAS covers:
// "Create an account SAS", REST reference.
var accountNeeds = map[Op]string{
	OpCreateContainer: "cw", OpDeleteContainer: "d", OpGetContainerProperties: "r",
	OpSetContainerMetadata: "w", OpLeaseContainer: "w",
	OpServiceProperties: "r",
}

func permit(c *call) *refusal {
	switch c.op {
	case OpBatch, OpUnsupported, OpAccountInfo:
		return nil
	}
	need, known := needs[c.op]
	if !known {
		if !c.grant.account {
			return refuse(http.StatusForbidden, "AuthorizationFailure", "This request is not authorized to perform this operation.")
		}
		need = accountNeeds[c.op]
	}
	if c.op == OpLeaseBlob && c.header.Get("x-ms-lease-action") == "break" {
		need += "d"
	}
	if !c.grant.may(need) || usesTags(c) && !c.grant.may("t") {
		return errPermission()
	}
	return nil
}

// usesTags says whether the request writes tags, or lists them, beside what
// it is for.
func usesTags(c *call) bool {
	if c.header.Get("x-ms-tags") != "" {
		return true
	}
	return c.op == OpList && includes(c.query)["tags"]
}
