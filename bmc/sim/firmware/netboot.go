package firmware

import "context"

// NetBoot boots over the network as the firmware of c's machine does. The
// error says what failed at which step; see [ErrStuck].
func NetBoot(ctx context.Context, c Config) (Boot, error) {
	return Boot{}, ErrStuck
}
