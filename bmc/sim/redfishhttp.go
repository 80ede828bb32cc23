package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// registry is the message registry that faults are of.
const registry = "Base.1.8."

// A fault is an error that a client may see, as a message of the registry.
type fault struct {
	status  int
	message string // its id in the registry
	text    string
	args    []string
	header  map[string]string
}

func (f *fault) Error() string { return f.text }

func missing(uri string) error {
	return &fault{status: 404, message: "ResourceMissingAtURI", text: "The resource at the URI " + uri + " was not found.", args: []string{uri}}
}

func malformed(err error) error {
	return &fault{status: 400, message: "MalformedJSON", text: "The request body is not a JSON object: " + err.Error()}
}

func badValue(property string, value any) error {
	return &fault{
		status: 400, message: "PropertyValueNotInList", args: []string{fmt.Sprint(value), property},
		text: fmt.Sprintf("The value %v for the property %s is not in the list of acceptable values.", value, property),
	}
}

func notWritable(property string) error {
	return &fault{
		status: 400, message: "PropertyNotWritable", args: []string{property},
		text: "The property " + property + " is read only or unknown and cannot be assigned a value.",
	}
}

func notAllowed(name string, methods resource) error {
	allow := slices.Sorted(maps.Keys(methods))
	if slices.Contains(allow, "GET") {
		allow = append(allow, "HEAD")
	}
	return &fault{
		status: 405, message: "OperationNotAllowed", text: "The HTTP method " + name + " is not allowed on this resource.",
		header: map[string]string{"Allow": strings.Join(allow, ", ")},
	}
}

// precondition checks If-Match (RFC 9110, 13.1.1) against a resource's ETag.
func (c call) precondition(etag string) error {
	ifMatch := c.Header.Get("If-Match")
	if err := c.oddMatch(ifMatch); err != nil {
		return err
	}
	switch {
	case ifMatch == "" && c.rf.opts.RequireETag:
		return needsMatch()
	case ifMatch == "" || ifMatch == "*":
		return nil
	}
	_, _, want := c.tags(etag)
	for tag := range strings.SplitSeq(ifMatch, ",") {
		if strings.TrimSpace(tag) == want {
			return nil
		}
	}
	return mismatch()
}

func needsMatch() error {
	return &fault{status: 428, message: "PreconditionRequired", text: "The change needs the header If-Match with the resource's ETag."}
}

func mismatch() error {
	return &fault{status: 412, message: "PreconditionFailed", text: "The ETag in If-Match is not the resource's: it has changed."}
}

// etag is a resource's strong ETag. Maps are encoded in the order of their
// keys, so equal resources have equal ones.
func etag(body doc) string {
	b, err := json.Marshal(body)
	if err != nil {
		return ""
	}
	return etagOf(b)
}

// etagOf is etag of a resource that is encoded already.
func etagOf(b []byte) string {
	sum := sha256.Sum256(b)
	return `"` + hex.EncodeToString(sum[:8]) + `"`
}

// write sends a reply, or the error instead.
func (c *call) write(w http.ResponseWriter, out reply, err error) {
	if err != nil {
		out = asReply(err)
	}
	for name, value := range out.header {
		w.Header().Set(name, value)
	}
	if err != nil && c.on("R-14") {
		writePage(w, out.status)
		return
	}
	if out.body == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if out.status == 0 {
		out.status = http.StatusOK
	}
	b, jsonErr := json.Marshal(out.body)
	if out.status == http.StatusOK {
		header, body, _ := c.tags(etagOf(b))
		w.Header().Set("ETag", header)
		if body != "" {
			out.body["@odata.etag"] = body
			b, jsonErr = json.Marshal(out.body)
		}
	}
	if jsonErr != nil {
		http.Error(w, jsonErr.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json;odata.metadata=minimal;charset=utf-8")
	w.Header().Set("Content-Length", fmt.Sprint(len(b)))
	w.WriteHeader(out.status)
	if c.Request == nil || c.Method != http.MethodHead {
		_, _ = w.Write(b) // the client may be gone
	}
}

// asReply makes an error the body that DSP0266 section 8.7 wants.
func asReply(err error) reply {
	f, ok := errors.AsType[*fault](err)
	if !ok {
		f = &fault{status: 500, message: "InternalError", text: err.Error()}
	}
	if f.args == nil {
		f.args = []string{}
	}
	info := doc{
		"@odata.type": "#Message.v1_1_1.Message", "MessageId": registry + f.message,
		"Message": f.text, "MessageArgs": f.args, "Severity": "Critical", "Resolution": "Correct the request and send it again.",
	}
	return reply{status: f.status, header: f.header, body: doc{"error": doc{
		"code": registry + f.message, "message": f.text, "@Message.ExtendedInfo": []doc{info},
	}}}
}
