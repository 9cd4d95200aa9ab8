package command

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"polystalk/cmd/internal/terminal"
	"polystalk/cmd/polystalk/api"
	"polystalk/cmd/polystalk/fault"
	"polystalk/cmd/polystalk/output"
	"polystalk/cmd/polystalk/queue"
	"polystalk/cmd/polystalk/target"
	"polystalk/cmd/polystalk/wire"
)

// An App is one run of the program.
type App struct {
	In       io.Reader
	Out, Err io.Writer
	Screens  Screens
	Getenv   func(name string) string
	Places   []string // where servers are looked for if none is named; nil: target.Places

	server, tokenFile string
	wait              string        // --timeout
	timeout           time.Duration // of wait
	verbose           bool
	format, jq        string

	asked   string        // the name of the server that was found
	out     *bufio.Writer // before Out
	printer *output.Printer
}

// Screens says which of the three are terminals.
type Screens struct{ In, Out, Err bool }

// timeoutDefault is how long an answer may take. A server that reads much from its disk answers
// within it, and an operator at a screen wants no longer wait.
const timeoutDefault = "10s"

// flags adds those that all commands have that talk to servers.
func (a *App) flags(fs *pflag.FlagSet) {
	fs.StringVar(&a.server, "server", "", "the server: http://HOST:PORT, https://…, unix:PATH, beanstalk://HOST:PORT or beanstalk+unix:PATH; default: $"+target.Variable+", or the first that is there of "+strings.Join(target.Places, ", "))
	fs.StringVar(&a.tokenFile, "token-file", "", "a file that holds the token alone; default: $POLYSTALK_TOKEN_FILE")
	fs.StringVar(&a.wait, "timeout", timeoutDefault, "how long an answer may take, and each 64 kB of a large body")
	fs.BoolVarP(&a.verbose, "verbose", "v", false, "say on standard error which server is asked")
	fs.StringVarP(&a.format, "output", "o", "", "table, wide, json, jsonl (a row on a line) or name; default: table")
	fs.StringVar(&a.jq, "jq", "", "show what this expression of jq makes of the JSON; of each row with -o jsonl")
}

// prepare makes the printer, once flags are known.
func (a *App) prepare() (err error) {
	if a.timeout, err = readTime("--timeout", a.wait); err != nil {
		return err
	}
	if a.timeout <= 0 {
		return fault.New(fault.Usage, "--timeout is %v: give a time such as 10s", a.timeout)
	}
	a.printer = &output.Printer{Out: a.out, Err: a.Err, Format: a.format, Screen: a.Screens.Out}
	if a.jq != "" {
		if a.printer.JQ, err = output.NewFilter(a.jq); err != nil {
			return err
		}
	}
	return a.printer.Check()
}

// find is the server that is asked.
func (a *App) find(ctx context.Context) (target.Target, error) {
	name, places := a.server, a.Places
	if name == "" {
		name = a.Getenv(target.Variable)
	}
	if places == nil {
		places = target.Places
	}
	t, err := target.Find(ctx, name, places)
	a.asked = t.Name
	if err == nil && a.verbose {
		a.note("asking %s", t.Name)
	}
	return t, err
}

// queue connects to the server, whatever it speaks. The caller closes it.
func (a *App) queue(ctx context.Context) (queue.Queue, error) {
	t, err := a.find(ctx)
	if err != nil {
		return nil, err
	}
	return a.connect(ctx, t)
}

// connect connects to a server, whatever it speaks. The caller closes it.
func (a *App) connect(ctx context.Context, t target.Target) (queue.Queue, error) {
	// A pointer that is nil would be a queue that is not.
	if t.HTTP() {
		c, err := a.client(t)
		if err != nil {
			return nil, err
		}
		return c, nil
	}
	c, err := wire.Dial(ctx, t, a.timeout)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// polystalk is the server if it is polystalkd, asked by HTTP; what says what that is needed
// for, after "cannot". The caller closes it.
func (a *App) polystalk(ctx context.Context, what string) (*api.Client, error) {
	t, err := a.find(ctx)
	if err != nil {
		return nil, err
	}
	if !t.HTTP() {
		return nil, queue.OnlyPolystalk(what)
	}
	return a.client(t)
}

func (a *App) client(t target.Target) (*api.Client, error) {
	file := a.tokenFile
	if file == "" {
		file = a.Getenv("POLYSTALK_TOKEN_FILE")
	}
	token, err := target.Token(file)
	if err != nil {
		return nil, err
	}
	c := api.New(t, token, a.timeout)
	if a.verbose {
		c.Elsewhere = func(server string) { a.note("answered by %s, which leads", terminal.Safe(server)) }
	}
	return c, nil
}

// note says something on standard error that is no failure, after what was shown so far.
func (a *App) note(format string, args ...any) {
	_ = a.out.Flush() // who writes next hears of it
	fmt.Fprintf(a.Err, "polystalk: %s\n", terminal.Safe(fmt.Sprintf(format, args...)))
}
