package main

import (
	"errors"
	"os"
	"os/user"
	"slices"
	"strconv"
	"syscall"
)

// An account is the user to become once the sockets are open.
type account struct {
	name     string
	uid, gid int
	groups   []int
}

// findAccount looks up the user of c, or returns nil if none was asked for.
// Errors are faults with the codes of the reference. The program is built without the
// C library, and so knows the accounts and groups in /etc, not those of a directory
// service.
func findAccount(c *Config) (*account, error) {
	if !c.isSet("user") {
		return nil, nil
	}
	from := c.origin("user")
	u, err := user.Lookup(c.User)
	if _, unknown := errors.AsType[user.UnknownUserError](err); unknown {
		return nil, faultf(exitNoUser, "%s: there is no user %q: give the name of an account in /etc/passwd", from, c.User)
	}
	if err != nil {
		return nil, faultf(exitUserFind, "%s: looking up user %q: %v: check the machine's account database", from, c.User, err)
	}
	ids, err := u.GroupIds()
	if err != nil {
		return nil, faultf(exitUserFind, "%s: looking up the groups of user %q: %v: check the machine's account database", from, c.User, err)
	}
	a := &account{name: c.User}
	for _, n := range []struct {
		to   *int
		text string
	}{{&a.uid, u.Uid}, {&a.gid, u.Gid}} {
		if *n.to, err = strconv.Atoi(n.text); err != nil {
			return nil, faultf(exitUserFind, "%s: user %q has the id %q, which is no number", from, c.User, n.text)
		}
	}
	for _, id := range ids {
		if g, err := strconv.Atoi(id); err == nil && !slices.Contains(a.groups, g) {
			a.groups = append(a.groups, g)
		}
	}
	return a, nil
}

// become drops to the account, groups first, for all threads of the process.
// The reference leaves the caller's supplementary groups in place; they would
// keep root's access to files open. Whoever is the account already stays it.
func (a *account) become(c *Config) error {
	if os.Getuid() == a.uid && os.Geteuid() == a.uid && os.Getgid() == a.gid && a.uid != 0 {
		return nil
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"setgroups", func() error { return syscall.Setgroups(a.groups) }},
		{"setgid", func() error { return syscall.Setgid(a.gid) }},
		{"setuid", func() error { return syscall.Setuid(a.uid) }},
	} {
		if err := step.do(); err != nil {
			return faultf(exitUserSet, "%s: becoming user %q: %s: %v: start as root, or leave -u out", c.origin("user"), a.name, step.name, err)
		}
	}
	return nil
}

// owners are the user ids whose dead sockets may be replaced: our own and that
// of the account we are about to become (nil: none).
func (a *account) owners() []int {
	ids := []int{os.Geteuid()}
	if a != nil && a.uid != ids[0] {
		ids = append(ids, a.uid)
	}
	return ids
}
