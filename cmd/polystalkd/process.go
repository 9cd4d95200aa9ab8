package main

import (
	"errors"
	"os"
	"os/user"
	"runtime"
	"slices"
	"strconv"
	"syscall"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
)

// An account is the user that the process becomes once the sockets are open.
type account struct {
	name     string
	UID, GID int
	groups   []int
}

// findAccount looks up the user of c. It returns nil if c names none. Errors are faults with
// beanstalkd's exit codes. The program is built without the C library, so it finds accounts and
// groups in /etc, but not in a directory service.
func findAccount(c *config.Config) (*account, error) {
	if !c.IsSet("user") {
		return nil, nil
	}
	from := c.Origin("user")
	u, err := user.Lookup(c.User)
	if _, unknown := errors.AsType[user.UnknownUserError](err); unknown {
		return nil, fault.New(fault.NoUser, "%s: there is no user %q: give the name of an account in /etc/passwd", from, c.User)
	}
	if err != nil {
		return nil, fault.New(fault.UserFind, "%s: looking up user %q: %v: check the machine's account database", from, c.User, err)
	}
	ids, err := u.GroupIds()
	if err != nil {
		return nil, fault.New(fault.UserFind, "%s: looking up the groups of user %q: %v: check the machine's account database", from, c.User, err)
	}
	a := &account{name: c.User}
	for _, n := range []struct {
		to   *int
		text string
	}{{&a.UID, u.Uid}, {&a.GID, u.Gid}} {
		if *n.to, err = strconv.Atoi(n.text); err != nil {
			return nil, fault.New(fault.UserFind, "%s: user %q has the id %q, which is not a number", from, c.User, n.text)
		}
	}
	for _, id := range ids {
		if g, err := strconv.Atoi(id); err == nil && !slices.Contains(a.groups, g) {
			a.groups = append(a.groups, g)
		}
	}
	return a, nil
}

// become changes all threads of the process to the account, groups first. beanstalkd keeps the
// caller's supplementary groups, so it can still open root's files. become does nothing if the
// process already runs as the account.
func (a *account) become(c *config.Config) error {
	if os.Getuid() == a.UID && os.Geteuid() == a.UID && os.Getgid() == a.GID && a.UID != 0 {
		return nil
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"setgroups", func() error { return syscall.Setgroups(a.groups) }},
		{"setgid", func() error { return syscall.Setgid(a.GID) }},
		{"setuid", func() error { return syscall.Setuid(a.UID) }},
	} {
		if err := step.do(); err != nil {
			return fault.New(fault.UserSet, "%s: becoming user %q: %s: %v: start as root, or leave -u out", c.Origin("user"), a.name, step.name, err)
		}
	}
	return nil
}

// owners returns the user IDs that may own a dead socket that the server replaces: the process's
// own ID and the account's. a may be nil.
func (a *account) owners() []int {
	ids := []int{os.Geteuid()}
	if a != nil && a.UID != ids[0] {
		ids = append(ids, a.UID)
	}
	return ids
}

// setDescriptors sets the limit of descriptors of c. By default the Go runtime has raised it
// to the user's maximum.
func setDescriptors(c *config.Config) error {
	if c.Descriptors == 0 {
		return nil
	}
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return fault.New(fault.System, "%s: reading the limit: %v", c.Origin("file-descriptors"), err)
	}
	most := r.Max
	r.Cur, r.Max = c.Descriptors, max(r.Max, c.Descriptors)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return fault.New(fault.System, "%s: %d descriptors: %v: give at most %d, or start as root", c.Origin("file-descriptors"), c.Descriptors, err, most)
	}
	return nil
}

// setProcs sets GOMAXPROCS to the number of loops, unless the environment sets it. Loops yield to
// other goroutines: see router's yieldEvery. One more processor would be idle, and each loop that
// pauses would make the runtime wake a thread to look for work. That cost a fifth of the CPU of a
// nearly idle server, and a sixth for a connection that puts one job at a time.
func setProcs(c *config.Config) {
	if os.Getenv("GOMAXPROCS") != "" {
		return
	}
	procs := c.Loops
	if c.BinlogDir != "" {
		// The committer occupies one processor while it waits for the disk. Without an idle one
		// the runtime polls every 20 µs to take it back, which cost a sixth of all CPU.
		procs += 2
	}
	runtime.GOMAXPROCS(procs)
}
