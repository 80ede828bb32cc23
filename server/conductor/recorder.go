package conductor

import (
	"context"

	"github.com/rs/zerolog"

	"bessemer/store"
)

// An IntentRecorder records messages like the store, but has those on the
// disk at once that ask the world outside for something that a crash cannot
// take back: the diagram then shows it, whatever happens next. Give it to
// the controllers' pool.
type IntentRecorder struct {
	db  *store.DB
	log zerolog.Logger
}

// NewRecorder returns an IntentRecorder on db.
func NewRecorder(db *store.DB, log zerolog.Logger) *IntentRecorder { return &IntentRecorder{db, log} }

// Record implements [store.Recorder].
func (r *IntentRecorder) Record(ctx context.Context, m store.Message) uint64 {
	seq := r.db.Record(ctx, m)
	if m.Kind == store.Request && (m.To == store.BMC || m.To == store.NodeP) && !onlyReads[m.Label] {
		// Batch, since it shares its wait for the disk with other callers. The
		// act is not held up by a full disk; the journal will be.
		if err := r.db.Batch(func(*store.Tx) error { return nil }); err != nil {
			r.log.Error().Err(err).Str("label", m.Label).Msg("save a message before acting")
		}
	}
	return seq
}

// onlyReads are the requests that change nothing.
var onlyReads = map[string]bool{
	store.LabelPowerState: true, store.LabelReadBootDevice: true, store.LabelListBootDevices: true, store.LabelReadBootMode: true,
	store.LabelVerifyBMC: true, store.LabelReadInventory: true, store.LabelReadSensors: true, store.LabelCheckController: true,
	store.LabelCheckAgent: true, store.LabelOpenSession: true, store.LabelCloseSession: true,
	store.LabelCommandStatus: true, store.LabelIsDeployDone: true, store.LabelIsCleanDone: true,
	store.LabelGetDeploySteps: true, store.LabelGetCleanSteps: true, store.LabelGetPartitions: true, store.LabelCollectLogs: true,
}
