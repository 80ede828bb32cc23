package api

// maxDepth is how deep JSON may nest, as in Ironic.
const maxDepth = 25

// checkDepth refuses JSON that nests deeper than most, before any decoder
// recurses into it.
func checkDepth(raw []byte, most int) error {
	depth, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch b := raw[i]; {
		case quoted && b == '\\':
			i++
		case b == '"':
			quoted = !quoted
		case quoted:
		case b == '{' || b == '[':
			if depth++; depth > most {
				return invalid("The request's body nests deeper than the %d levels allowed", most)
			}
		case b == '}' || b == ']':
			depth--
		}
	}
	return nil
}
