package wire

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"testing"

	"polystalk/cmd/internal/program"
	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/conversation"
)

// starts returns how the server is started for a conversation or a history of a protocol.
func starts(t *testing.T, p *conversation.Protocol, shards int) conversation.Start {
	t.Helper()
	program := daemon.Program(t)
	if p == conversation.Beanstalk {
		return func(c *conversation.Conversation, dir string) (*conversation.Server, error) {
			args, err := withAccess(daemon.ShardArgs(shards), c, dir)
			if err != nil {
				return nil, err
			}
			return conversation.StartBeanstalkd(program, args...)(c, dir)
		}
	}
	ours := map[string]string{"--job-retries": "--gearman-retries", "--worker-wakeup": "--gearman-wakeup", "--exceptions": "--gearman-exceptions"}
	return func(c *conversation.Conversation, dir string) (*conversation.Server, error) {
		args, err := withAccess(append(daemon.ShardArgs(shards), "-l", "127.0.0.1", "-p", "0", "--gearman-prefix", conversation.HandlePrefix), c, dir)
		if err != nil {
			return nil, err
		}
		if c.Store {
			args = append(args, "-b", dir)
		}
		for _, o := range c.Flags {
			if name, ok := ours[o]; ok {
				o = name
			}
			args = append(args, o)
		}
		return conversation.Launch(p, func(port string) *exec.Cmd {
			return exec.Command(program, append(args, "--gearman-listen", "127.0.0.1:"+port)...)
		})
	}
}

// withAccess adds the access file of a conversation to the server's arguments.
func withAccess(args []string, c *conversation.Conversation, dir string) ([]string, error) {
	if c.Access == "" {
		return args, nil
	}
	file := dir + ".toml"
	return append(args, "--access-file", file), os.WriteFile(file, []byte(c.Access), 0o600)
}

// inPlaceOfGearmand does the same with gearmand's command line.
func inPlaceOfGearmand(shards int) conversation.Start {
	return func(c *conversation.Conversation, dir string) (*conversation.Server, error) {
		args := append([]string{"gearmand", "--shards", strconv.Itoa(shards), "--verbose", "ERROR", "-L", "127.0.0.1", "--job-handle-prefix", conversation.HandlePrefix}, c.Flags...)
		args, err := withAccess(args, c, dir)
		if err != nil {
			return nil, err
		}
		if c.Store {
			args = append(args, "--journal", dir)
		}
		return conversation.Launch(conversation.Gearman, func(port string) *exec.Cmd {
			return exec.Command(daemon.Binary, append(args, "-p", port)...)
		})
	}
}

// journaled starts the server with a journal of small segments.
func journaled(start conversation.Start) conversation.Start {
	return func(c *conversation.Conversation, dir string) (*conversation.Server, error) {
		with := *c
		with.Store, with.Flags = true, append(slices.Clone(c.Flags), "-s", "300000")
		return start(&with, dir)
	}
}

// settings are the numbers of shards, and zero for four shards and a journal.
var settings = append([]int{0}, daemon.ShardCounts...)

// TestConversations plays the written conversations with any number of shards and with a
// journal; Gearman is also played with gearmand's command line.
func TestConversations(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for _, p := range []*conversation.Protocol{conversation.Beanstalk, conversation.Gearman} {
		all, err := conversation.All(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, shards := range settings {
			t.Run(fmt.Sprintf("%s/shards=%d", p.Name, shards), func(t *testing.T) {
				t.Parallel()
				start, o := starts(t, p, cmp.Or(shards, 4)), conversation.Options{Journaled: shards == 0}
				if shards == 0 {
					start = journaled(start)
				}
				if p == conversation.Gearman {
					o.Version = "2.0.0+polystalk." + program.Version
					if shards == 4 && os.Getenv("POLYSTALKD_BIN") == "" {
						start = inPlaceOfGearmand(shards)
					}
				}
				// Most of them wait most of the time: several run at once.
				var wg sync.WaitGroup
				room := make(chan struct{}, 8)
				for _, c := range all {
					if c.SimOnly || o.Journaled && c.Sleeps() {
						continue
					}
					room <- struct{}{}
					wg.Go(func() {
						if err := c.Run(start, o, t.TempDir()); err != nil {
							t.Error(err)
						}
						<-room
					})
				}
				wg.Wait()
			})
		}
	}
}

// handedOn are the conversations about how bytes arrive and how connections end, by the
// server that they are played with. The first of a group may show what the server has done
// before, which is nothing.
var handedOn = [][]string{
	{"disconnect", "long-lines", "odd-bytes", "quit"}, {"half-close"}, {"prefixes"}, {"put-errors"}, {"put-too-big"}, {"stats"}, {"waiters"},
}

// TestConversationsHandedOn plays conversations with a server that hands its clients on to
// the leader.
func TestConversationsHandedOn(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	if os.Getenv("POLYSTALKD_BIN") != "" {
		t.Skip("another server is in no cluster")
	}
	all, err := conversation.All(conversation.Beanstalk)
	if err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]*conversation.Conversation)
	for _, c := range all {
		byName[c.Name] = c
	}
	for _, group := range handedOn {
		t.Run(group[0], func(t *testing.T) {
			address := standBy(t).beanstalk
			for _, name := range group {
				d := &conversation.NetDriver{Address: address}
				if err := byName[name].Play(d, conversation.Options{Journaled: true}); err != nil {
					t.Error(err)
				}
				d.Shutdown()
			}
		})
	}
}
