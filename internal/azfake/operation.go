package azfake

import (
	"net/http"
	"net/url"
	"strings"
)

// Op names what a request asks for. Hooks and counters use it.
type Op string

// The operations, named after their pages in the Blob service REST reference.
const (
	OpCreateContainer        Op = "CreateContainer"        // Create Container
	OpGetContainerProperties Op = "GetContainerProperties" // Get Container Properties
	OpSetContainerMetadata   Op = "SetContainerMetadata"   // Set Container Metadata
	OpDeleteContainer        Op = "DeleteContainer"        // Delete Container
	OpLeaseContainer         Op = "LeaseContainer"         // Lease Container
	OpList                   Op = "List"                   // List Blobs
	OpBatch                  Op = "Batch"                  // Blob Batch
	OpBatchDelete            Op = "BatchDelete"            // one Delete Blob inside a Blob Batch
	OpBatchSetTier           Op = "BatchSetTier"           // one Set Blob Tier inside a Blob Batch
	OpAccountInfo            Op = "AccountInfo"            // Get Account Information
	OpServiceProperties      Op = "ServiceProperties"      // Get Blob Service Properties
	OpPutBlob                Op = "PutBlob"                // Put Blob
	OpPutBlobFromURL         Op = "PutBlobFromURL"         // Put Blob From URL
	OpCopyBlob               Op = "CopyBlob"               // Copy Blob
	OpCopyFromURL            Op = "CopyFromURL"            // Copy Blob From URL
	OpGetBlob                Op = "GetBlob"                // Get Blob
	OpHeadBlob               Op = "HeadBlob"               // Get Blob Properties
	OpGetMetadata            Op = "GetMetadata"            // Get Blob Metadata
	OpSetMetadata            Op = "SetMetadata"            // Set Blob Metadata
	OpSetHTTPHeaders         Op = "SetHTTPHeaders"         // Set Blob Properties
	OpSetTier                Op = "SetTier"                // Set Blob Tier
	OpGetTags                Op = "GetTags"                // Get Blob Tags
	OpSetTags                Op = "SetTags"                // Set Blob Tags
	OpDeleteBlob             Op = "DeleteBlob"             // Delete Blob
	OpUndelete               Op = "Undelete"               // Undelete Blob
	OpPutBlock               Op = "PutBlock"               // Put Block
	OpPutBlockFromURL        Op = "PutBlockFromURL"        // Put Block From URL
	OpPutBlockList           Op = "PutBlockList"           // Put Block List
	OpGetBlockList           Op = "GetBlockList"           // Get Block List
	OpLeaseBlob              Op = "LeaseBlob"              // Lease Blob
	OpUnsupported            Op = "Unsupported"            // anything else; answered 501
)

// handlers holds what each operation does. Those wrapped in locked run
// entirely under the server's lock and do nothing that could wait.
var handlers map[Op]func(*Server, *call) *reply

func init() {
	handlers = map[Op]func(*Server, *call) *reply{
		OpCreateContainer:        locked((*Server).createContainer),
		OpGetContainerProperties: locked((*Server).containerProperties),
		OpSetContainerMetadata:   locked((*Server).setContainerMetadata),
		OpDeleteContainer:        locked((*Server).deleteContainer),
		OpLeaseContainer:         locked((*Server).leaseContainer),
		OpList:                   (*Server).list,
		OpBatch:                  (*Server).batch,
		OpAccountInfo:            (*Server).accountInfo,
		OpServiceProperties:      (*Server).serviceProperties,
		OpPutBlob:                locked((*Server).putBlob),
		OpPutBlobFromURL:         locked((*Server).putBlobFromURL),
		OpCopyBlob:               locked((*Server).copyBlob),
		OpCopyFromURL:            locked((*Server).copyFromURL),
		OpGetBlob:                locked((*Server).getBlob),
		OpHeadBlob:               locked((*Server).headBlob),
		OpGetMetadata:            locked((*Server).getMetadata),
		OpSetMetadata:            locked((*Server).setMetadata),
		OpSetHTTPHeaders:         locked((*Server).setHTTPHeaders),
		OpSetTier:                locked((*Server).setTier),
		OpBatchSetTier:           locked((*Server).setTier),
		OpGetTags:                locked((*Server).getTags),
		OpSetTags:                locked((*Server).setTags),
		OpDeleteBlob:             locked((*Server).deleteBlob),
		OpBatchDelete:            locked((*Server).deleteBlob),
		OpUndelete:               locked((*Server).undelete),
		OpPutBlock:               locked((*Server).putBlock),
		OpPutBlockFromURL:        locked((*Server).putBlockFromURL),
		OpPutBlockList:           locked((*Server).putBlockList),
		OpGetBlockList:           locked((*Server).getBlockList),
		OpLeaseBlob:              locked((*Server).leaseBlob),
		OpUnsupported:            (*Server).unsupported,
	}
}

func locked(h func(*Server, *call) *reply) func(*Server, *call) *reply {
	return func(s *Server, c *call) *reply {
		s.mu.Lock()
		defer s.mu.Unlock()
		return h(s, c)
	}
}

func (s *Server) unsupported(c *call) *reply {
	return refuse(http.StatusNotImplemented, "NotImplemented",
		"azfake does not implement "+c.method+" comp="+c.query.Get("comp")+" restype="+c.query.Get("restype")+" with these headers").reply()
}

func classify(method string, h http.Header, q url.Values, container, blob string) Op {
	comp, restype := q.Get("comp"), q.Get("restype")
	switch {
	case comp == "batch" && method == http.MethodPost && blob == "":
		return OpBatch
	case restype == "account" && comp == "properties" && isRead(method):
		return OpAccountInfo
	case container == "":
		if restype == "service" && comp == "properties" && method == http.MethodGet {
			return OpServiceProperties
		}
		return OpUnsupported
	case blob == "":
		if restype == "container" {
			return classifyContainer(method, comp)
		}
		return OpUnsupported
	case q.Get("snapshot") != "" || q.Get("versionid") != "":
		return OpUnsupported
	}
	return classifyBlob(method, comp, h)
}

func classifyContainer(method, comp string) Op {
	switch method + " " + comp {
	case "PUT ":
		return OpCreateContainer
	case "GET ", "HEAD ", "GET metadata", "HEAD metadata":
		return OpGetContainerProperties
	case "PUT metadata":
		return OpSetContainerMetadata
	case "DELETE ":
		return OpDeleteContainer
	case "PUT lease":
		return OpLeaseContainer
	case "GET list":
		return OpList
	}
	return OpUnsupported
}

func classifyBlob(method, comp string, h http.Header) Op {
	copied := h.Get("x-ms-copy-source") != ""
	switch method + " " + comp {
	case "PUT ":
		return classifyPut(h, copied)
	case "GET ":
		return OpGetBlob
	case "HEAD ":
		return OpHeadBlob
	case "DELETE ":
		return OpDeleteBlob
	case "GET metadata", "HEAD metadata":
		return OpGetMetadata
	case "PUT metadata":
		return OpSetMetadata
	case "PUT properties":
		return OpSetHTTPHeaders
	case "PUT tier":
		return OpSetTier
	case "GET tags":
		return OpGetTags
	case "PUT tags":
		return OpSetTags
	case "PUT undelete":
		return OpUndelete
	case "PUT block":
		if copied {
			return OpPutBlockFromURL
		}
		return OpPutBlock
	case "PUT blocklist":
		return OpPutBlockList
	case "GET blocklist":
		return OpGetBlockList
	case "PUT lease":
		return OpLeaseBlob
	}
	return OpUnsupported
}

func classifyPut(h http.Header, copied bool) Op {
	switch {
	case !copied:
		return OpPutBlob
	case h.Get("x-ms-blob-type") != "":
		return OpPutBlobFromURL
	case strings.EqualFold(h.Get("x-ms-requires-sync"), "true"):
		return OpCopyFromURL
	}
	return OpCopyBlob
}

func isRead(method string) bool { return method == http.MethodGet || method == http.MethodHead }
