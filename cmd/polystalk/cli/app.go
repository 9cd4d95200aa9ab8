// Package cli has the verbs of polystalk.
//
//	Run → cobra finds the verb's row → client.Dial → verb.request or verb.do → client.Printer
//
// A verb is a row of a table. Most rows only build a client.Request; the row's view shows the
// answer. A request goes to any server: by HTTP, or by beanstalkd's protocol if it can express
// the request. An App is one run of the program, so flags are variables of its rows.
package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"polystalk/cmd/internal/program"
	"polystalk/cmd/polystalk/client"
)

// An App is one run of the program.
type App struct {
	In       io.Reader
	Out, Err io.Writer
	Screens  Screens
	Getenv   func(name string) string
	Places   []string // the servers to try if none is named; nil: client.Places

	server, tokenFile string
	wait              string // --timeout
	timeout           time.Duration
	verbose           bool

	asked   string        // the name of the server in use
	out     *bufio.Writer // buffers Out
	printer client.Printer

	path bool // --path: names of tubes are percent-encoded
}

// Screens reports which of the three streams are terminals.
type Screens struct{ In, Out, Err bool }

// timeoutDefault is long enough for an answer that the server reads from a busy disk.
const timeoutDefault = "10s"

// flags adds the flags of all verbs that talk to servers.
func (a *App) flags(fs *pflag.FlagSet) {
	fs.StringVar(&a.server, "server", "", "the server: http://HOST:PORT, https://HOST:PORT, unix:PATH, beanstalk://HOST:PORT or beanstalk+unix:PATH; default: $"+client.Variable+", or the first that answers of "+strings.Join(client.Places, ", "))
	fs.StringVar(&a.tokenFile, "token-file", "", "a file that holds only the token; default: $POLYSTALK_TOKEN_FILE")
	fs.StringVar(&a.wait, "timeout", timeoutDefault, "timeout of an answer, and of each 64 kB of a large body")
	fs.BoolVarP(&a.verbose, "verbose", "v", false, "show on standard error which server is used")
	fs.StringVarP(&a.printer.Format, "output", "o", "", "table, wide, json, jsonl (a row on each line) or name; default: table")
	fs.StringVar(&a.printer.Filter, "jq", "", "show the result of this jq expression on the JSON; with -o jsonl on each row")
}

// prepare checks the flags of all verbs.
func (a *App) prepare() (err error) {
	if a.timeout, err = readTime("--timeout", a.wait); err != nil {
		return err
	}
	if a.timeout <= 0 {
		return client.Errorf(client.Usage, "--timeout is %v: give a time such as 10s", a.timeout)
	}
	a.printer.Out, a.printer.Err, a.printer.Screen = a.out, a.Err, a.Screens.Out
	return a.printer.Check()
}

// find returns the server to ask.
func (a *App) find(ctx context.Context) (client.Target, error) {
	name, places := a.server, a.Places
	if name == "" {
		name = a.Getenv(client.Variable)
	}
	if places == nil {
		places = client.Places
	}
	t, err := client.Find(ctx, name, places)
	a.asked = t.Name
	if err == nil && a.verbose {
		a.note("asking %s", t.Name)
	}
	return t, err
}

// dial connects to a server.
func (a *App) dial(ctx context.Context, t client.Target) (client.Server, error) {
	o := client.Options{Timeout: a.timeout}
	if t.Base != nil {
		file := a.tokenFile
		if file == "" {
			file = a.Getenv("POLYSTALK_TOKEN_FILE")
		}
		var err error
		if o.Token, err = client.Token(file); err != nil {
			return nil, err
		}
	}
	if a.verbose {
		o.AnsweredBy = func(server string) { a.note("answered by %s, the leader", program.Safe(server)) }
	}
	return client.Dial(ctx, t, o)
}

// connect finds a server and connects to it. If the verb needs HTTP, cannot names what
// beanstalkd's protocol cannot do. The caller must close the connection.
func (a *App) connect(ctx context.Context, cannot string) (client.Server, error) {
	t, err := a.find(ctx)
	if err != nil {
		return nil, err
	}
	if cannot != "" && t.Base == nil {
		return nil, client.Unsupported(cannot)
	}
	return a.dial(ctx, t)
}

// note writes a message on standard error, after the output so far.
func (a *App) note(format string, args ...any) {
	_ = a.out.Flush() // the next write fails as well
	fmt.Fprintf(a.Err, "polystalk: %s\n", program.Safe(fmt.Sprintf(format, args...)))
}

// done shows a document, or in a table a line for people.
func (a *App) done(document []byte, format string, args ...any) error {
	if a.printer.IsTable() {
		_, err := fmt.Fprintf(a.out, format+"\n", args...)
		return err
	}
	return a.printer.Show(document, client.View{})
}

// Run runs a command and returns the exit code. The end of ctx interrupts the command.
func Run(ctx context.Context, a *App, args []string) int {
	out := a.Out
	if a.Screens.Out {
		out = &program.Writer{W: out}
	}
	a.out = bufio.NewWriterSize(out, 1<<16)
	if len(args) == 1 && (args[0] == "-v" || args[0] == "--version") {
		args = []string{"version"}
	}
	root := a.Tree()
	root.SetArgs(append([]string{}, args...)) // nil would mean the arguments of the process
	ran, err := root.ExecuteContextC(ctx)
	if ran != nil && ran.Name() == checkName {
		return a.checked(err)
	}
	if flushed := a.out.Flush(); err == nil && flushed != nil {
		err = fmt.Errorf("writing the output: %w", flushed)
	}
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE): // the reader of the output has seen enough
		return client.OK
	case errors.Is(err, context.Canceled):
		err = interruption(ran)
	}
	fmt.Fprintf(a.Err, "polystalk: %s\n", program.Safe(err.Error()))
	return client.ExitCode(err)
}

// interruption returns the error of an interrupted command.
func interruption(ran *cobra.Command) error {
	if ran != nil && ran.Annotations["reads"] != "" {
		return client.Errorf(client.NotDone, "interrupted")
	}
	return client.Errorf(client.NotDone, "interrupted: changes so far remain")
}
