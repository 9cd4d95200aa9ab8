// Empty: the compiler takes declarations without a body, as in eventloop_linux.go, only in a
// package with an assembler file.
