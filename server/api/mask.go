package api

import (
	"regexp"
	"strings"

	"bessemer/store"
)

// masked stands for a secret, as in Ironic.
const masked = "******"

// secretWords are in the names of values that are secrets, whatever the
// driver.
var secretWords = []string{
	"passw", "passphrase", "passcode", "pswd", "secret", "token", "credential", "private_key", "privatekey", "api_key", "apikey",
	"access_key", "auth_key", "priv_key", "ssl_key", "sslkey", "kg_key", "community", "chap", "configdrive", "fernet", "encryption_key", "encrypted_key",
}

// secretKey says whether a value of this name is a secret.
func secretKey(name string) bool {
	name = strings.ToLower(name)
	if strings.HasSuffix(name, "_pass") || name == "pass" || name == "image_url" {
		return true
	}
	for _, w := range secretWords {
		if strings.Contains(name, w) {
			return true
		}
	}
	return false
}

// mask returns a copy of one of a node's bags in which every secret is
// masked. It is applied before anything is projected or shown.
func (c *call) mask(n *store.Node, bag map[string]any) map[string]any {
	return maskBag(bag, c.api.secretsOf(n.Driver))
}

// secretsOf returns the driver_info keys that a driver declares as secrets.
func (a *API) secretsOf(driver string) map[string]bool {
	return a.secrets[driver]
}

func (a *API) learnSecrets() {
	a.secrets = map[string]map[string]bool{}
	for name, t := range a.conductor.Types() {
		keys := map[string]bool{}
		for _, p := range t.Properties {
			if p.Secret {
				keys[p.Name] = true
			}
		}
		a.secrets[name] = keys
	}
}

func maskBag(bag map[string]any, secrets map[string]bool) map[string]any {
	if bag == nil {
		return nil
	}
	out := make(map[string]any, len(bag))
	for k, v := range bag {
		if _, flag := v.(bool); !flag && v != nil && v != "" && (secrets[k] || secretKey(k)) {
			out[k] = masked
			continue
		}
		out[k] = maskValue(v, secrets)
	}
	return out
}

func maskValue(v any, secrets map[string]bool) any {
	switch v := v.(type) {
	case map[string]any:
		return maskBag(v, secrets)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = maskValue(e, secrets)
		}
		return out
	case string:
		return maskURL(v)
	}
	return v
}

// urlPassword is the password of a URL, anywhere in a text.
var urlPassword = regexp.MustCompile(`(://[^/\s:@"']*:)[^/\s@]+@`)

// maskURL masks the passwords of the URLs in a text.
func maskURL(s string) string {
	if !strings.Contains(s, "://") {
		return s
	}
	return urlPassword.ReplaceAllString(s, "${1}"+masked+"@")
}

// unmask puts back what a client has read masked and sends again: a masked
// value stands for the one that is kept. Without one it is refused, lest the
// mask be taken for a password.
func unmask(name string, sent, kept map[string]any) error {
	for k, v := range sent {
		switch v := v.(type) {
		case string:
			if !strings.Contains(v, masked) {
				continue
			}
			old, ok := kept[k]
			if !ok {
				return invalid("%s/%s is %s, which is how secrets are shown and not a value", name, shown(k), masked)
			}
			if s, isText := old.(string); v == masked || isText && v == maskURL(s) {
				sent[k] = old
			}
		case map[string]any:
			inner, _ := kept[k].(map[string]any)
			if err := unmask(name+"/"+k, v, inner); err != nil {
				return err
			}
		}
	}
	return nil
}
