package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"
)

// A Participant is a column of the sequence diagram.
type Participant string

// The participants. They are seed 000's, with the BMC apart from the node.
const (
	ClientP   Participant = "Client"     // seed 000: Nova
	API       Participant = "API"        //
	Conductor Participant = "Conductor"  //
	DHCP      Participant = "DHCP"       // seed 000: Neutron
	HTTPStore Participant = "HTTPStore"  // images and config drives
	Boot      Participant = "TFTP/HTTPd" // boot files
	BMC       Participant = "BMC"        // seed 000: Node, when out of band
	NodeP     Participant = "Node"       // firmware, ramdisk and agent
)

// Kind says what sort of line a message is in the diagram.
type Kind string

// Kinds.
const (
	Request  Kind = "request"  // an arrow that wants an answer
	Reply    Kind = "reply"    // the answer to Message.ReplyTo
	Cast     Kind = "cast"     // an arrow without an answer
	Self     Kind = "self"     // a participant to itself
	State    Kind = "state"    // a node's provision or power state changed
	Report   Kind = "progress" // how far a long step has come
	Divider  Kind = "divider"  // a line across: restart of the appliance
	StepKind Kind = "step"     // a step of a run began or ended
)

// A Message is one arrow of the sequence diagram: From told To something.
type Message struct {
	Seq     uint64      `json:"seq"`
	Time    time.Time   `json:"time"`
	Trace   string      `json:"trace,omitempty"`
	Node    string      `json:"node,omitempty"`
	Run     uint64      `json:"run,omitempty"`
	Step    string      `json:"step,omitempty"`
	From    Participant `json:"from"`
	To      Participant `json:"to"`
	Kind    Kind        `json:"kind"`
	Label   string      `json:"label"` // from a fixed catalogue; seed 000's words where it has them
	ReplyTo uint64      `json:"reply_to,omitempty"`
	// Dur is how long the request took, in nanoseconds; set on replies.
	Dur     time.Duration  `json:"dur,omitempty"`
	Outcome Outcome        `json:"outcome,omitempty"` // of replies, steps
	Attempt int            `json:"attempt,omitempty"`
	Error   string         `json:"error,omitempty"`
	Wire    *Wire          `json:"wire,omitempty"`
	Detail  map[string]any `json:"detail,omitempty"` // redacted, small
}

// Wire is what really crossed a wire for a message; never a body, never a
// secret.
type Wire struct {
	Proto  string `json:"proto"` // redfish, ipmi, http, dhcp, tftp
	Method string `json:"method,omitempty"`
	Path   string `json:"path,omitempty"` // tokens replaced
	Status int    `json:"status,omitempty"`
	Peer   string `json:"peer,omitempty"`
	Out    int64  `json:"out,omitempty"` // bytes sent by From
	In     int64  `json:"in,omitempty"`  // bytes sent back
	// Exchanges is how many exchanges on the wire the message stands for,
	// when these are the last one's; 0 is one.
	Exchanges int `json:"exchanges,omitempty"`
}

// A Recorder keeps messages. DB is one; tests use [storetest.Recorder].
type Recorder interface {
	// Record completes m (Seq, Time, and what the context's Scope knows)
	// and keeps it. It never blocks on the disk and never fails.
	Record(ctx context.Context, m Message) (seq uint64)
}

// A Scope says on whose behalf work is done; it rides on the context, so that
// transports can attribute a message without being told.
type Scope struct {
	Trace string
	Node  string
	Run   uint64
	Step  string
}

type scopeKey struct{}

// WithScope returns a context that carries s.
func WithScope(ctx context.Context, s Scope) context.Context {
	return context.WithValue(ctx, scopeKey{}, s)
}

// ScopeFrom returns the scope of ctx, or the zero Scope.
func ScopeFrom(ctx context.Context) Scope {
	s, _ := ctx.Value(scopeKey{}).(Scope)
	return s
}

// NewTrace returns a new W3C trace id: 16 random bytes in hex.
func NewTrace() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// Send records the request m now and returns the function that records its
// reply: a peer that hangs stays visible as an unanswered arrow. The wire
// given to the reply, if any, completes the picture.
func Send(ctx context.Context, rec Recorder, m Message) (reply func(err error, wire *Wire)) {
	if m.Kind == "" {
		m.Kind = Request
	}
	begun := time.Now()
	seq := rec.Record(ctx, m)
	return func(err error, wire *Wire) {
		r := Message{
			From: m.To, To: m.From, Kind: Reply, Label: m.Label, ReplyTo: seq,
			Node: m.Node, Run: m.Run, Trace: m.Trace, Step: m.Step,
			Dur: time.Since(begun), Outcome: OK, Wire: wire, Attempt: m.Attempt,
		}
		if err != nil {
			r.Outcome, r.Error = Failed, err.Error()
		}
		rec.Record(ctx, r)
	}
}

// Messages is the table of messages, by sequence number.
var Messages = NewTable("messages", func(m *Message) string { return messageKey(m.Seq) },
	Index("trace", func(m *Message) []string { return some(m.Trace) }),
	Index("node", func(m *Message) []string { return some(m.Node) }),
)
