package httpd

import (
	"errors"
	"io"
	"net/http"
)

// A counter notes the status and the bytes of an answer on their way out.
type counter struct {
	http.ResponseWriter
	status int
	sent   int64
	err    error
}

func (c *counter) WriteHeader(status int) {
	c.status = status
	c.ResponseWriter.WriteHeader(status)
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.note(int64(n), err)
	return n, err
}

// ReadFrom lets the connection take a file with sendfile.
func (c *counter) ReadFrom(r io.Reader) (int64, error) {
	rf, ok := c.ResponseWriter.(io.ReaderFrom)
	if !ok {
		return io.Copy(struct{ io.Writer }{c}, r)
	}
	n, err := rf.ReadFrom(r)
	c.note(n, err)
	return n, err
}

// Unwrap is for http.ResponseController.
func (c *counter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *counter) note(n int64, err error) {
	c.sent += n
	if err != nil {
		c.err = errors.New("connection lost") // the text names addresses only we know
	}
}
