package conductor

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"bessemer/agent/wire"
	"bessemer/store"
)

// recording is the transport to agents: it draws the arrow of each exchange
// and of its answer, in the words of the sequence diagram.
type recording struct {
	next http.RoundTripper
	base *http.Transport // below next
	rec  store.Recorder
}

func (r *recording) CloseIdleConnections() { r.base.CloseIdleConnections() }

// RoundTrip implements [http.RoundTripper].
func (r *recording) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, sent := req.Context(), outgoing(req)
	begun := time.Now()
	seq := r.rec.Record(ctx, store.Message{From: store.Conductor, To: store.NodeP, Kind: store.Request, Label: sent.label})
	w := &store.Wire{Proto: "http", Method: req.Method, Path: "/v1/commands/", Peer: req.URL.Host, Out: req.ContentLength}
	reply := store.Message{From: store.NodeP, To: store.Conductor, Kind: store.Reply, Label: sent.label, ReplyTo: seq, Wire: w}

	resp, err := r.next.RoundTrip(req)
	var text []byte
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
		resp.Body.Close()
		resp.Body = io.NopCloser(bytes.NewReader(text))
		w.Status, w.In = resp.StatusCode, int64(len(text))
	}
	reply.Dur, reply.Outcome = time.Since(begun), store.OK
	switch {
	case err != nil:
		reply.Outcome, reply.Error = store.Failed, clip(err.Error(), 300)
	case resp.StatusCode/100 != 2:
		reply.Outcome, reply.Error = store.Failed, http.StatusText(resp.StatusCode)
	default:
		reply.Label, reply.Detail = sent.answer(text)
	}
	r.rec.Record(ctx, reply)
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// An arrow is what an exchange with an agent is called.
type arrow struct {
	label string
	// answer names the answer, and what of it belongs in the diagram.
	answer func(body []byte) (label string, detail map[string]any)
}

type arrowKey struct{}

// withArrow names the next exchange otherwise than by its command.
func withArrow(ctx context.Context, a arrow) context.Context {
	return context.WithValue(ctx, arrowKey{}, a)
}

// outgoing names an exchange: by its context, or else by its command.
func outgoing(req *http.Request) arrow {
	if a, ok := req.Context().Value(arrowKey{}).(arrow); ok {
		return a
	}
	label := store.LabelCommandStatus
	if req.GetBody != nil && req.Method == http.MethodPost {
		if body, err := req.GetBody(); err == nil {
			var cmd struct {
				Name string `json:"name"`
			}
			if json.NewDecoder(body).Decode(&cmd) == nil {
				label = commandLabel(cmd.Name)
			}
		}
	}
	return arrow{label, func([]byte) (string, map[string]any) { return label, nil }}
}

var commandLabels = map[string]string{
	"deploy.get_deploy_steps":     store.LabelGetDeploySteps,
	"deploy.execute_deploy_step":  store.LabelContinueDeploy,
	"clean.get_clean_steps":       store.LabelGetCleanSteps,
	"clean.execute_clean_step":    store.LabelEraseDisks,
	"standby.get_partition_uuids": store.LabelGetPartitions,
	"image.install_bootloader":    store.LabelInstallBootLoader,
	"standby.sync":                store.LabelSyncDisks,
	"log.collect_system_logs":     store.LabelCollectLogs,
}

func commandLabel(name string) string {
	if l, ok := commandLabels[name]; ok {
		return l
	}
	return store.LabelExecuteStep
}

// pollArrow names a poll of a long command: asking, still working, done.
func pollArrow(ask, done, executes string) arrow {
	return arrow{ask, func(body []byte) (string, map[string]any) {
		var list wire.Commands
		if json.Unmarshal(body, &list) != nil {
			return ask, nil
		}
		cmd := lastOf(list.Commands, executes)
		switch {
		case cmd == nil:
			return ask, nil
		case cmd.Status == wire.Running:
			return store.LabelStillWorking, progressDetail(cmd.Progress)
		case cmd.Status == wire.Succeeded:
			return done, nil
		}
		return done, map[string]any{"status": string(cmd.Status)}
	}}
}

func progressDetail(p *wire.Progress) map[string]any {
	if p == nil {
		return nil
	}
	return map[string]any{"what": clip(p.What, 100), "done": p.Done, "total": p.Total}
}

// lastOf returns the newest command of a name.
func lastOf(cmds []wire.Command, name string) *wire.Command {
	for i := len(cmds) - 1; i >= 0; i-- {
		if cmds[i].Name == name || strings.HasSuffix(cmds[i].Name, "."+name) {
			return &cmds[i]
		}
	}
	return nil
}

// countOf returns how many commands of a name there are.
func countOf(cmds []wire.Command, name string) (n int) {
	for i := range cmds {
		if cmds[i].Name == name || strings.HasSuffix(cmds[i].Name, "."+name) {
			n++
		}
	}
	return n
}

// parsePEM reads the certificates of a PEM text; there must be at least one
// and at most a handful.
func parsePEM(text []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	for len(certs) < 8 {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, errors.New("holds something other than certificates")
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		certs = append(certs, c)
	}
	if len(certs) == 0 {
		return nil, errors.New("holds no PEM certificate")
	}
	return certs, nil
}
