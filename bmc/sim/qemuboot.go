package sim

import "bessemer/bmc"

// Boot implements Machine.
func (q *QEMU) Boot() bmc.Boot {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fw.override
}

// SetBoot implements Machine.
func (q *QEMU) SetBoot(b bmc.Boot) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fw.setBoot(b)
}

// BootMode implements Machine.
func (q *QEMU) BootMode() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fw.mode
}

// NextBootMode implements Machine.
func (q *QEMU) NextBootMode() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fw.next
}

// SetBootMode implements Machine.
func (q *QEMU) SetBootMode(mode string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fw.setMode(mode)
}

// Starts lists what the machine booted from at each start of its firmware,
// oldest first; the Device is "" where it followed its own order.
func (q *QEMU) Starts() []bmc.Boot {
	q.mu.Lock()
	defer q.mu.Unlock()
	return append([]bmc.Boot(nil), q.fw.started...)
}
