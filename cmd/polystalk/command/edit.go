package command

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"polystalk/cmd/polystalk/api"
	"polystalk/cmd/polystalk/fault"
	"polystalk/cmd/polystalk/queue"
	"polystalk/codec/admin"
)

// An edit is what is to be changed.
type edit struct {
	pri        uint32
	delay, ttr string
	body       string // a file
	editor     bool
}

func (a *App) editCommand() *cobra.Command {
	var (
		e edit
		b = new(bulk)
	)
	c := &cobra.Command{
		Use: "edit [ID...]", Short: "change jobs: priority, delay, time to run, and the body of one", Args: arguments("[ID...]"),
		Long: idsHelp + selected + `A body is changed one job at a time.
With --editor, the program in $VISUAL or $EDITOR is given the body; the job is
changed only if it still is what it was then.`,
		RunE: a.onPolystalk("change jobs", func(cmd *cobra.Command, c *api.Client, args []string) error {
			selects, err := b.selects(cmd, args)
			if err != nil {
				return err
			}
			change, err := e.read(cmd)
			if err != nil {
				return err
			}
			withBody := e.editor || cmd.Flags().Changed("body")
			switch {
			case withBody && (selects || len(args) != 1 || args[0] == "-"):
				return fault.New(fault.Usage, "edit: a body is changed in one job at a time: give one ID")
			case e.editor && cmd.Flags().Changed("body"):
				return fault.New(fault.Usage, "edit: there are --body and --editor: give one of them")
			case selects:
				if len(b.picked.states) == 0 && change.DelaySeconds != nil {
					b.picked.states = []string{"ready", "delayed"} // no others have a delay
				}
				o, err := b.operation("set")
				if err != nil {
					return err
				}
				o.Set = admin.SetJobs{Pri: change.Pri, DelaySeconds: change.DelaySeconds, TTRSeconds: change.TTRSeconds}
				return a.run(cmd.Context(), c, b, o)
			case cmd.Flags().Changed("body"):
				in, err := a.open(e.body, "give the file that holds the body, or - for standard input")
				if err != nil {
					return err
				}
				defer in.Close()
				// It is sent as JSON, so it is in memory in any case.
				b := bodies{ctx: cmd.Context(), q: c}
				var j queue.NewJob
				if err := b.read(in, &j); err != nil {
					return err
				}
				if j.Large != nil {
					j.Body = make([]byte, j.Large.Size())
					if _, err := io.ReadFull(j.Large, j.Body); err != nil {
						return fault.New(fault.System, "the body cannot be read: %v", err)
					}
				}
				setBody(&change, j.Body)
			case e.editor:
				return a.editInEditor(cmd.Context(), c, args[0], change, b.force)
			}
			return a.each(cmd.Context(), args, "edit", func(ctx context.Context, id uint64) error {
				return c.Edit(ctx, id, change, "", b.force)
			})
		}),
	}
	c.Flags().Uint32Var(&e.pri, "pri", 0, "priority: the smallest first")
	c.Flags().StringVar(&e.delay, "delay", "", "ready after so long, such as 90s or 12h; 0: now")
	c.Flags().StringVar(&e.ttr, "ttr", "", "how long a worker may take, from its next reservation on")
	c.Flags().StringVar(&e.body, "body", "", "the file that holds the new body; -: standard input")
	c.Flags().BoolVar(&e.editor, "editor", false, "change the body in an editor")
	c.Flags().BoolVar(&b.force, "force", false, "also what workers have")
	b.flags(c.Flags())
	return c
}

// read is what the flags say, but for the body.
func (e *edit) read(cmd *cobra.Command) (change admin.EditJob, err error) {
	flags := cmd.Flags()
	some := flags.Changed("body") || e.editor
	if flags.Changed("pri") {
		change.Pri, some = &e.pri, true
	}
	for _, f := range []struct {
		flag, text string
		to         **uint32
	}{{"delay", e.delay, &change.DelaySeconds}, {"ttr", e.ttr, &change.TTRSeconds}} {
		if !flags.Changed(f.flag) {
			continue
		}
		seconds, err := readSpan("--"+f.flag, f.text)
		if err != nil {
			return change, err
		}
		*f.to, some = &seconds, true
	}
	if !some {
		return change, fault.New(fault.Usage, "edit: what is to be changed is missing: give --pri, --delay, --ttr, --body or --editor")
	}
	return change, nil
}

func setBody(change *admin.EditJob, body []byte) {
	if utf8.Valid(body) {
		text := string(body)
		change.Body = &text
		return
	}
	change.BodyBase64 = &body
}

// editInEditor has somebody change a body.
func (a *App) editInEditor(ctx context.Context, c *api.Client, arg string, change admin.EditJob, force bool) error {
	id, err := readID(arg)
	if err != nil {
		return err
	}
	editor := a.Getenv("VISUAL")
	if editor == "" {
		editor = a.Getenv("EDITOR")
	}
	if editor == "" {
		return fault.New(fault.Usage, "edit: there is no editor: name one by EDITOR, or give --body FILE")
	}
	was, err := c.Do(ctx, api.Request{Method: "GET", Path: api.JobPath(id, "")})
	if err != nil {
		return err
	}
	var before bytes.Buffer
	if err := c.Body(ctx, id, &before); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "polystalk-")
	if err != nil {
		return fmt.Errorf("a folder for the body: %w", err)
	}
	file := filepath.Join(dir, "job-"+arg)
	if err := os.WriteFile(file, before.Bytes(), 0o600); err != nil {
		os.RemoveAll(dir)
		return fmt.Errorf("a file for the body: %w", err)
	}
	// As other programs do it: the variable may hold arguments, too.
	run := exec.Command("sh", "-c", editor+` "$1"`, "sh", file)
	run.Stdin, run.Stdout, run.Stderr = a.In, a.Out, a.Err
	if err := undisturbed(run.Run); err != nil {
		os.RemoveAll(dir)
		return fault.New(fault.Unconfirmed, "nothing was changed: the editor has failed: %v", err)
	}
	after, err := os.ReadFile(file)
	if err != nil {
		os.RemoveAll(dir)
		return fmt.Errorf("the file of the body: %w", err)
	}
	if bytes.Equal(after, before.Bytes()) && change.Pri == nil && change.DelaySeconds == nil && change.TTRSeconds == nil {
		os.RemoveAll(dir)
		return fault.New(fault.Unconfirmed, "nothing was changed: the body is as it was")
	}
	setBody(&change, after)
	// What was interrupted by the keys is the editor, which knows whether to go on.
	if err := c.Edit(context.WithoutCancel(ctx), id, change, was.Header.Get("ETag"), force); err != nil {
		return fault.New(fault.Code(err), "%v; the body that you have written is in %s", err, file)
	}
	os.RemoveAll(dir)
	return a.done(doneDocument("edit", 1, 0), "edit: 1 of 1 job")
}

// undisturbed runs a program that has the terminal. Keys that interrupt are sent to both, and
// are meant for that program: to some editors they are keys like others.
func undisturbed(run func() error) error {
	keys := make(chan os.Signal, 1)
	signal.Notify(keys, os.Interrupt) // however often they are pressed
	defer signal.Stop(keys)
	return run()
}
