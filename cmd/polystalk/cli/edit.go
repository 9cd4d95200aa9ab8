package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"polystalk/cmd/polystalk/client"
	"polystalk/codec/admin"
)

// An edit holds the flags of the new values.
type edit struct {
	pri        uint32
	delay, ttr string
	body       string // path of a file
	editor     bool
}

func (a *App) editVerb() verb {
	var e edit
	b := &bulk{action: action{name: "set", verb: "edit", done: "changed"}}
	return verb{
		use: "edit [ID...]", short: "change jobs: priority, delay, time to run, and the body of one", cannot: "change jobs",
		long: idsHelp + bulkHelp + `--body and --editor change one job at a time. With --editor, the program in $VISUAL or $EDITOR
gets the body. The job is changed only if no one else has changed it meanwhile.`,
		examples: "polystalk edit 17 --editor\npolystalk edit --tube mail --pri 5 --older 1h",
		flags: func(fs *pflag.FlagSet) {
			fs.Uint32Var(&e.pri, "pri", 0, "priority: the smallest first")
			fs.StringVar(&e.delay, "delay", "", "ready after this time, such as 90s or 12h; 0: now")
			fs.StringVar(&e.ttr, "ttr", "", "time to run: how long a worker may take, from its next reservation")
			fs.StringVar(&e.body, "body", "", "the file that holds the new body; -: standard input")
			fs.BoolVar(&e.editor, "editor", false, "change the body in an editor")
			fs.BoolVar(&b.force, "force", false, "also reserved jobs")
			b.flags(fs, a)
		},
		do: func(r *run) error {
			selects, err := b.selects(r)
			if err != nil {
				return err
			}
			change, err := e.read(r)
			if err != nil {
				return err
			}
			force := forced(b.force)
			switch byFile := r.changed("body"); {
			case (e.editor || byFile) && (selects || len(r.args) != 1 || r.args[0] == "-"):
				return client.Errorf(client.Usage, "edit: --body and --editor change one job at a time: give one ID")
			case e.editor && byFile:
				return client.Errorf(client.Usage, "edit: --body and --editor exclude each other: give one of them")
			case selects:
				if change.DelaySeconds != nil {
					b.states = []string{"ready", "delayed"} // other jobs have no delay
				}
				o, err := b.operation(r)
				if err != nil {
					return err
				}
				o.Set = change
				return r.bulk(b, o)
			case byFile:
				in, err := r.open(e.body, "give the file that holds the body, or - for standard input")
				if err != nil {
					return err
				}
				defer in.Close()
				body, err := r.readBody(in)
				if err != nil {
					return err
				}
				setBody(&change, body)
			case e.editor:
				return r.editInEditor(r.args[0], change, force)
			}
			return r.each("job", "edit", client.Request{Method: "PATCH", Path: "/jobs/{id}", Query: force, JSON: change})
		},
	}
}

func setBody(c *admin.SetJobs, body []byte) {
	if utf8.Valid(body) {
		c.Body, _ = json.Marshal(string(body)) // a text cannot fail
	} else {
		c.BodyBase64, _ = json.Marshal(body)
	}
}

// read reads all flags except the body.
func (e *edit) read(r *run) (c admin.SetJobs, err error) {
	if r.changed("pri") {
		c.Pri = &e.pri
	}
	for _, f := range []struct {
		flag, text string
		to         **uint32
	}{{"delay", e.delay, &c.DelaySeconds}, {"ttr", e.ttr, &c.TTRSeconds}} {
		if r.changed(f.flag) {
			seconds, err := readSeconds("--"+f.flag, f.text)
			if err != nil {
				return c, err
			}
			*f.to = &seconds
		}
	}
	if c.Pri == nil && c.DelaySeconds == nil && c.TTRSeconds == nil && !e.editor && !r.changed("body") {
		err = client.Errorf(client.Usage, "edit: the change is missing: give --pri, --delay, --ttr, --body or --editor")
	}
	return c, err
}

// editInEditor lets the operator change a body in an editor. The job changes only if it is still
// the one that the operator saw.
func (r *run) editInEditor(arg string, c admin.SetJobs, force url.Values) error {
	id, err := readID(arg)
	if err != nil {
		return err
	}
	editor := cmp.Or(r.Getenv("VISUAL"), r.Getenv("EDITOR"))
	if editor == "" {
		return client.Errorf(client.Usage, "edit: there is no editor: name one by EDITOR, or give --body FILE")
	}
	was, err := r.server.Ask(r.ctx, client.Request{Method: "GET", Path: "/jobs/{id}", ID: id})
	if err != nil {
		return err
	}
	var before bytes.Buffer
	if err := r.server.Body(r.ctx, id, &before); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "polystalk-")
	if err != nil {
		return fmt.Errorf("a folder for the body: %w", err)
	}
	keep := false // true once dir may have the only copy of the operator's text
	defer func() {
		if !keep {
			os.RemoveAll(dir)
		}
	}()
	file := filepath.Join(dir, "job-"+arg)
	if err := os.WriteFile(file, before.Bytes(), 0o600); err != nil {
		return fmt.Errorf("a file for the body: %w", err)
	}
	// A shell runs the editor as in other programs, as the variable may contain arguments.
	run := exec.Command("sh", "-c", editor+` "$1"`, "sh", file)
	run.Stdin, run.Stdout, run.Stderr = r.In, r.Out, r.Err
	if err := uninterrupted(run.Run); err != nil {
		return client.Errorf(client.Unconfirmed, "nothing was changed: the editor has failed: %v", err)
	}
	after, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("the file of the body: %w", err)
	}
	if bytes.Equal(after, before.Bytes()) && c.Pri == nil && c.DelaySeconds == nil && c.TTRSeconds == nil {
		return client.Errorf(client.Unconfirmed, "nothing was changed: the body is the same")
	}
	setBody(&c, after)
	// The operator interrupted only the editor, which has ended.
	ctx := context.WithoutCancel(r.ctx)
	_, err = r.server.Ask(ctx, client.Request{Method: "PATCH", Path: "/jobs/{id}", ID: id, Query: force, JSON: c, IfMatch: was.Tag})
	if err != nil {
		keep = true
		return client.Errorf(client.ExitCode(err), "%v; the body that you have written is in %s", err, file)
	}
	return r.done(doneDocument("edit", 1, 0), "edit: 1 of 1 job")
}

// uninterrupted runs a program on the terminal and ignores Ctrl-C. Both programs receive it, and
// some editors use it as an ordinary key.
func uninterrupted(run func() error) error {
	keys := make(chan os.Signal, 1)
	signal.Notify(keys, os.Interrupt)
	defer signal.Stop(keys)
	return run()
}
