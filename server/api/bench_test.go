package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"bessemer/server/auth"
	"bessemer/store"
)

// BenchmarkNodes measures the answers that large fleets ask for: 1,000 nodes
// in brief and in full, and one of them.
func BenchmarkNodes(b *testing.B) {
	g := newRig(b, auth.None)
	err := g.db.Update(func(tx *store.Tx) error {
		for i := range 1000 {
			n := &store.Node{
				UUID: fmt.Sprintf("11111111-2222-4333-8444-%012d", i), Name: fmt.Sprintf("node-%d", i), Driver: "redfish",
				ProvisionState: store.Active, PowerState: store.PowerOn, CreatedAt: time.Now(), ProvisionUpdatedAt: time.Now(),
				DriverInfo:   map[string]any{"redfish_address": "https://192.0.2.1", "redfish_username": "root", "redfish_password": "secret"},
				Properties:   map[string]any{"cpu_arch": "x86_64", "memory_mb": 65536, "local_gb": 480, "cpus": 32, "capabilities": "boot_mode:uefi"},
				InstanceInfo: map[string]any{"image_source": "http://192.0.2.9/image.qcow2", "image_checksum": "abc"}, ResourceClass: "baremetal",
			}
			g.api.fillInterfaces(n)
			if err := store.Nodes.Put(tx, n); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	h := g.api.Handler()
	for name, path := range map[string]string{"list": "/v1/nodes", "detail": "/v1/nodes/detail", "one": "/v1/nodes/node-500"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest(http.MethodGet, path, nil)
				r.Host = "127.0.0.1"
				r.Header.Set(versionHeader, "1.82")
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if w.Code != 200 {
					b.Fatal(w.Code, w.Body)
				}
				b.SetBytes(int64(w.Body.Len()))
			}
		})
	}
}
