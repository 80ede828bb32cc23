package sim

// secure is a machine's setting of secure boot.
type secure struct{ on, next bool }

func (c *Controller) secureBoot() secure {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.secure
}

func (rf *Redfish) getSecureBoot(c call) (reply, error) {
	s := c.ctl.secureBoot()
	if c.on("B-15") && s.on != s.next && c.Method == "GET" {
		return reply{}, &fault{status: 500, message: "InternalError", text: "Secure boot is being configured."}
	}
	current := "Disabled"
	if s.on {
		current = "Enabled"
	}
	path := root + c.systemPath() + "/SecureBoot"
	return reply{body: doc{
		"@odata.id": path, "@odata.type": "#SecureBoot.v1_1_0.SecureBoot", "Id": "SecureBoot", "Name": "UEFI Secure Boot",
		"SecureBootEnable": s.next, "SecureBootCurrentBoot": current, "SecureBootMode": "UserMode",
		"Actions": doc{"#SecureBoot.ResetKeys": doc{
			"target":                                path + "/Actions/SecureBoot.ResetKeys",
			"ResetKeysType@Redfish.AllowableValues": resetKeys,
		}},
	}}, nil
}

func (rf *Redfish) patchSecureBoot(c call) (reply, error) {
	on, ok := c.body["SecureBootEnable"].(bool)
	if !ok || len(c.body) != 1 {
		return reply{}, badValue("SecureBootEnable", c.body["SecureBootEnable"])
	}
	c.ctl.mu.Lock()
	c.ctl.secure.next = on
	c.ctl.mu.Unlock()
	return reply{}, nil
}

var resetKeys = []string{"ResetAllKeysToDefault", "DeleteAllKeys", "DeletePK"}

// postResetKeys takes the keys that a machine of this rack has: none of its
// own, so that they are the factory's before and after.
func (rf *Redfish) postResetKeys(c call) (reply, error) {
	for _, kind := range resetKeys {
		if c.body["ResetKeysType"] == kind {
			return reply{}, nil
		}
	}
	return reply{}, badValue("ResetKeysType", c.body["ResetKeysType"])
}
