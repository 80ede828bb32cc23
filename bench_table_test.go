//go:build linux

package main_test

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
)

// print writes the table.
func (b *bench) print(w io.Writer) {
	fmt.Fprintf(w, "\nMedians of %d rounds, ours and the peer in turns. Ratio: how many times better ours is.\n\n", *benchRounds)
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "subject\tours\tpeer\tratio\thow")
	for _, r := range b.rows {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", r.Subject, r.figure(r.Ours), r.peer(), r.ratio(), r.How)
	}
	_ = tw.Flush() // to our own output
	b.printSteps(w)
	fmt.Fprintln(w)
}

func (r *row) figure(rounds []float64) string {
	if len(rounds) == 0 {
		return "-"
	}
	return short(median(rounds)) + " " + r.Unit
}

func (r *row) peer() string {
	switch {
	case r.PeerName == "":
		return "-"
	case len(r.Peer) == 0:
		return r.PeerName
	}
	return r.figure(r.Peer) + " " + r.PeerName
}

func (r *row) ratio() string {
	if r.Ratio == 0 {
		return "-"
	}
	return short(r.Ratio)
}

// short is a number with three digits that count.
func short(f float64) string {
	switch {
	case f >= 99.95:
		return strconv.FormatFloat(f, 'f', 0, 64)
	case f >= 9.995:
		return strconv.FormatFloat(f, 'f', 1, 64)
	case f >= 0.01:
		return strconv.FormatFloat(f, 'f', 2, 64)
	}
	return strconv.FormatFloat(f, 'g', 3, 64)
}

// printSteps writes what a deployment's time was spent on.
func (b *bench) printSteps(w io.Writer) {
	if len(b.steps) == 0 {
		return
	}
	fmt.Fprint(w, "\nThe steps of the deployment:\n\n")
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	for _, s := range b.steps {
		fmt.Fprintf(tw, "%s\t%.2f s\t\n", s.Name, s.Seconds)
	}
	_ = tw.Flush()
}
