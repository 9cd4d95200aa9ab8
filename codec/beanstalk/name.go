package beanstalk

// nameByte marks the bytes that a tube name may have.
// Source: beanstalkd doc/protocol.txt, "tube names".
var nameByte = func() (t [256]bool) {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-+/;.$_()"
	for _, c := range []byte(allowed) {
		t[c] = true
	}
	return t
}()

// ValidTubeName reports whether name is 1 to MaxTubeName bytes of letters,
// digits and -+/;.$_() and does not begin with a hyphen.
func ValidTubeName(name []byte) bool {
	if len(name) == 0 || len(name) > MaxTubeName || name[0] == '-' {
		return false
	}
	return nameLen(name) == len(name)
}

// nameLen counts the bytes at the front of s that a name may have.
func nameLen(s []byte) int {
	for i, c := range s {
		if !nameByte[c] {
			return i
		}
	}
	return len(s)
}
