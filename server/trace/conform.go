package trace

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"bessemer/store"
)

// An Arrow is one arrow of seed 000's direct deploy, and whether a recorded
// trace has it.
type Arrow struct {
	N       int               `json:"n"` // from 1
	From    store.Participant `json:"from"`
	To      store.Participant `json:"to"`
	Label   string            `json:"label"`
	Present bool              `json:"present"`           // in its place in the order
	Seq     uint64            `json:"seq,omitempty"`     // the message that it is
	Message string            `json:"message,omitempty"` // that message's label
	// Misplaced says that there is such a message, but not in this place.
	Misplaced bool `json:"misplaced,omitempty"`
}

// A want is an arrow of the seed and what counts as it.
type want struct {
	from   store.Participant
	to     []store.Participant // any of these; the seed's Node is our BMC or Node
	label  string              // as our catalogue has it
	accept []string            // beginnings of labels that mean the same
	reply  string              // or: the answer to a request with this label
}

var (
	toClient = store.ClientP
	oob      = []store.Participant{store.BMC}
	either   = []store.Participant{store.BMC, store.NodeP}
	inBand   = []store.Participant{store.NodeP}
	api      = []store.Participant{store.API}
	self     = []store.Participant{store.Conductor}
	dhcp     = []store.Participant{store.DHCP}
	files    = []store.Participant{store.HTTPStore}
)

// seed000 is the sequence of a direct deploy as the product was asked for, in
// order. The seed's Nova is our Client, its Neutron our DHCP.
var seed000 = []want{
	{from: toClient, to: api, label: store.LabelSetInstanceInfo},
	{from: toClient, to: api, label: store.LabelValidate},
	{from: toClient, to: api, label: store.LabelPlugVIFs},
	{from: toClient, to: api, label: store.LabelSetProvisionState},
	{from: store.API, to: self, label: store.LabelDoNodeDeploy},
	{from: store.Conductor, to: self, label: store.LabelValidate},
	{from: store.Conductor, to: files, label: store.LabelStoreConfigDrive},
	{from: store.Conductor, to: either, label: store.LabelPowerOff, accept: []string{store.LabelSoftPowerOff}},
	{from: store.Conductor, to: dhcp, label: store.LabelAttachNetwork},
	{from: store.Conductor, to: dhcp, label: store.LabelUpdateDHCP},
	{from: store.Conductor, to: self, label: store.LabelPreparePXE},
	{from: store.Conductor, to: oob, label: store.LabelBootDevicePXE, accept: []string{"Set PXE boot device", "Set boot device: uefi http", "Set boot device: cdrom"}},
	{from: store.Conductor, to: []store.Participant{store.Conductor, store.HTTPStore}, label: store.LabelCacheImages},
	{from: store.Conductor, to: either, label: store.LabelReboot, accept: []string{store.LabelPowerOn}},
	{from: store.NodeP, to: dhcp, label: store.LabelDHCPRequest},
	{from: store.DHCP, to: inBand, label: store.LabelNextServer, reply: store.LabelDHCPRequest},
	{from: store.NodeP, to: inBand, label: store.LabelRunsAgent},
	{from: store.NodeP, to: api, label: store.LabelLookup},
	{from: store.API, to: inBand, label: store.LabelPassUUID, reply: store.LabelLookup},
	{from: store.NodeP, to: api, label: store.LabelHeartbeat},
	{from: store.API, to: self, label: store.LabelHeartbeat},
	{from: store.Conductor, to: inBand, label: store.LabelContinueDeploy, accept: []string{"Continue deploy"}},
	{from: store.NodeP, to: files, label: store.LabelDownloadImage, accept: []string{"Downloads image"}},
	{from: store.Conductor, to: inBand, label: store.LabelIsDeployDone},
	{from: store.NodeP, to: self, label: store.LabelStillWorking, accept: []string{store.LabelWriteProgress}},
	{from: store.NodeP, to: self, label: store.LabelDeployDone},
	{from: store.Conductor, to: inBand, label: store.LabelInstallBootLoader},
	{from: store.Conductor, to: dhcp, label: store.LabelUpdateDHCP},
	{from: store.Conductor, to: self, label: store.LabelPrepareInstance},
	{from: store.Conductor, to: []store.Participant{store.BMC, store.Conductor}, label: store.LabelBootDeviceDisk, accept: []string{"Set boot device either", store.LabelBootDevicePXE, store.LabelKeepBootDevice}},
	{from: store.Conductor, to: inBand, label: store.LabelCollectLogs},
	{from: store.Conductor, to: either, label: store.LabelPowerOff, accept: []string{store.LabelShutDownAgent, store.LabelSoftPowerOff}},
	{from: store.Conductor, to: dhcp, label: store.LabelDetachNetwork},
	{from: store.Conductor, to: dhcp, label: store.LabelBindTenantPort},
	{from: store.Conductor, to: either, label: store.LabelPowerOn},
	{from: store.Conductor, to: self, label: store.LabelMarkActive},
}

// Conformance compares messages with seed 000's arrows by meaning. Of all ways
// to find the arrows in the messages in the seed's order, it takes one that
// finds the most; other messages may lie between. A message that failed is
// none of them.
func Conformance(ms []store.Message) []Arrow {
	ms = slices.Clone(ms)
	slices.SortStableFunc(ms, func(a, b store.Message) int { return cmp.Compare(a.Seq, b.Seq) })
	c := newComparison(ms)
	found := c.align()
	arrows := make([]Arrow, len(seed000))
	for i, w := range seed000 {
		a := Arrow{N: i + 1, From: w.from, To: w.to[0], Label: w.label}
		at := found[i]
		if a.Present = at >= 0; !a.Present {
			at = slices.IndexFunc(c.ms, func(m message) bool { return c.matches(i, m) })
			a.Misplaced = at >= 0
		}
		if at >= 0 {
			a.To, a.Seq, a.Message = c.ms[at].To, c.ms[at].Seq, c.ms[at].Label
		}
		arrows[i] = a
	}
	return arrows
}

// A message is a recorded message as it is compared.
type message struct {
	store.Message
	words string
	lost  bool // it or its answer failed, or it draws no arrow
}

// A comparison is the messages, and what became of them.
type comparison struct {
	ms       []message
	requests map[uint64]string // labels
	accept   [][]string        // for each arrow, what its label may begin with
}

func newComparison(ms []store.Message) *comparison {
	c := &comparison{requests: map[uint64]string{}}
	failed := map[uint64]bool{}
	for _, m := range ms {
		c.requests[m.Seq] = m.Label
		if m.Outcome == store.Failed || m.Error != "" {
			failed[m.Seq] = true
			failed[m.ReplyTo] = m.ReplyTo != 0
		}
	}
	for _, m := range ms {
		lost := failed[m.Seq] || m.Kind == store.StepKind || m.Kind == store.State || m.Kind == store.Divider
		c.ms = append(c.ms, message{m, plainWords(m.Label), lost})
	}
	for _, w := range seed000 {
		words := []string{plainWords(w.label)}
		for _, a := range w.accept {
			words = append(words, plainWords(a))
		}
		c.accept = append(c.accept, words)
	}
	return c
}

// matches reports whether a message is arrow i of the seed.
func (c *comparison) matches(i int, m message) bool {
	w := seed000[i]
	if m.lost || m.From != w.from || !slices.Contains(w.to, m.To) {
		return false
	}
	if m.Kind == store.Reply {
		if w.reply != "" && c.requests[m.ReplyTo] == w.reply {
			return true
		}
		// A reply repeats its request's label; only one with words of its own
		// (such as "Deploy is done") is an arrow of its own.
		if c.requests[m.ReplyTo] == m.Label {
			return false
		}
	}
	return slices.ContainsFunc(c.accept[i], func(words string) bool { return strings.HasPrefix(m.words, words) })
}

// plainWords is a label without case and punctuation, so that "Set boot
// device: pxe" and "set boot device pxe" are one.
func plainWords(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_'
	}), " ")
}

// align returns for each arrow the index of its message, or -1: a longest
// common subsequence, whose messages are as early as they can be.
func (c *comparison) align() []int {
	n, m := len(seed000), len(c.ms)
	best := make([][]int, n+1) // best[i][j]: arrows found of those from i on in the messages from j on
	for i := range best {
		best[i] = make([]int, m+1)
	}
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			best[i][j] = max(best[i+1][j], best[i][j+1])
			if c.matches(i, c.ms[j]) {
				best[i][j] = max(best[i][j], 1+best[i+1][j+1])
			}
		}
	}
	found := make([]int, n)
	for i, j := 0, 0; i < n; i++ {
		found[i] = -1
		for k := j; k < m; k++ {
			if c.matches(i, c.ms[k]) && 1+best[i+1][k+1] == best[i][j] {
				found[i], j = k, k+1
				break
			}
		}
	}
	return found
}
