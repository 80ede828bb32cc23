package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/urfave/cli/v2"
)

// Lists come in pages, whose links may name a host that the client does not
// know the appliance by.
func TestListAllFollowsPages(t *testing.T) {
	t.Setenv("BESSEMER_DATA_DIR", t.TempDir())
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("marker") {
		case "":
			fmt.Fprint(w, `{"nodes": [{"name": "a"}, {"name": "b"}], "next": "http://rack.example.org/v1/nodes?limit=2&marker=b"}`)
		case "b":
			fmt.Fprint(w, `{"nodes": [{"name": "c"}]}`)
		default:
			http.NotFound(w, r)
		}
	}))
	defer srv.Close()
	flags := []cli.Flag{&cli.StringFlag{Name: "url"}}
	err := withFlags(t, flags, []string{"--url", srv.URL}, func(c *cli.Context) error {
		rows, err := listAll(c, "/v1/nodes?limit=2", "nodes")
		if len(rows) != 3 || rows[2]["name"] != "c" {
			t.Errorf("got %v", rows)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
