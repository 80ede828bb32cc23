package api

import (
	"fmt"
	"io"
	"net/http"
	"time"
)

// backup streams a consistent copy of the store. ?key=true puts the secret
// key in it.
func backup(c *call) error {
	if err := c.only("key"); err != nil {
		return err
	}
	s, _ := c.param("key")
	withKey, err := parseBool("key", orNull(s))
	if err != nil {
		return err
	}
	write := c.api.db.Backup
	if withKey {
		write = c.api.db.BackupWithKey
	}
	h := c.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", "bessemer-"+time.Now().UTC().Format("20060102-150405")+".backup"))
	w := &steady{w: c.w, rc: http.NewResponseController(c.w)}
	if err := write(w); err != nil {
		if w.begun {
			c.api.log.Error().Err(err).Msg("backup broke off")
			panic(http.ErrAbortHandler) // the client must see that it is not whole
		}
		h.Del("Content-Disposition")
		return err
	}
	return nil
}

// steady is a writer that gives the client a while for each piece.
type steady struct {
	w     io.Writer
	rc    *http.ResponseController
	begun bool
}

func (s *steady) Write(b []byte) (int, error) {
	s.begun = true
	_ = s.rc.SetWriteDeadline(time.Now().Add(time.Minute))
	return s.w.Write(b)
}

// check looks for all that could be wrong with the store.
func check(c *call) error {
	if err := c.only(); err != nil {
		return err
	}
	ctx, cancel := c.lasting(10 * time.Minute)
	defer cancel()
	problems, err := c.api.db.Check(ctx)
	if err != nil {
		return err
	}
	c.json(http.StatusOK, map[string]any{"ok": len(problems) == 0, "problems": orNoneOf(problems)})
	return nil
}
