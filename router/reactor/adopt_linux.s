// Empty: the compiler takes declarations without a body, as adopt_linux.go has them,
// only in a package with an assembler file.
