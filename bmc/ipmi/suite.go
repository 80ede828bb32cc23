package ipmi

import "github.com/bougou/go-ipmi/pkg/types"

// A suite is a cipher suite of IPMI 2.0 (table 22-20). Only those that sign
// and encrypt, with a hash that is still sound for HMAC, are here: suite 0
// asks for no password at all.
type suite struct {
	id        int
	auth      types.AuthAlg
	integrity types.IntegrityAlg
	crypt     types.CryptAlg
	signature int // bytes of a packet's signature
}

var (
	suite17 = suite{17, types.AuthAlg_HMAC_SHA256, types.IntegrityAlg_HMAC_SHA256_128, types.CryptAlg_AES_CBC_128, 16}
	suite3  = suite{3, types.AuthAlg_HMAC_SHA1, types.IntegrityAlg_HMAC_SHA1_96, types.CryptAlg_AES_CBC_128, 12}
)
