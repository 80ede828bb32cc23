package boot

// A Log keeps the last 64 KiB of what is written to it.
type Log struct{ ring ring }

// Write implements io.Writer; it never fails.
func (l *Log) Write(p []byte) (int, error) { return l.ring.Write(p) }

// Bytes returns what was written last.
func (l *Log) Bytes() []byte { return l.ring.bytes() }
