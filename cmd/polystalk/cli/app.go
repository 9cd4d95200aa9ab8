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
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"polystalk/cmd/internal/program"
	"polystalk/cmd/polystalk/client"
	"polystalk/codec/admin"
)

// An App is one run of the program.
type App struct {
	In       io.Reader
	Out, Err io.Writer
	Screens  Screens
	Getenv   func(name string) string
	Places   []string // the servers to try if none is named; nil: client.Places

	server, tokenFile string
	ca, cert, key     string // --tls-ca, --tls-cert, --tls-key
	wait              string // --timeout
	timeout           time.Duration
	verbose           bool

	ended   <-chan struct{} // closed by an interrupt
	asked   string          // the name of the server in use
	out     *bufio.Writer   // buffers Out
	printer client.Printer

	path bool // --path: names of tubes are percent-encoded
}

// Screens reports which of the three streams are terminals.
type Screens struct {
	In, Out, Err bool
	Width        int // of Out; 0: unknown
}

// timeoutDefault is long enough for an answer that the server reads from a busy disk.
const timeoutDefault = "10s"

// flags adds the flags of all verbs that talk to servers.
func (a *App) flags(fs *pflag.FlagSet) {
	fs.StringVar(&a.server, "server", "", "the server: http://HOST:PORT, https://HOST:PORT, unix:PATH, beanstalk://HOST:PORT, beanstalk+tls://HOST:PORT or beanstalk+unix:PATH; default: $"+client.Variable+", or the first that answers of "+strings.Join(client.Places, ", "))
	fs.StringVar(&a.tokenFile, "token-file", "", "a file that holds only the token; default: $POLYSTALK_TOKEN_FILE")
	fs.StringVar(&a.ca, "tls-ca", "", "the authorities that sign certificates of servers, in PEM; default: $POLYSTALK_TLS_CA, or the system's")
	fs.StringVar(&a.cert, "tls-cert", "", "your certificate, in PEM, for servers that ask for one; default: $POLYSTALK_TLS_CERT")
	fs.StringVar(&a.key, "tls-key", "", "its key, if it is in another file; default: $POLYSTALK_TLS_KEY")
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
	a.printer.Out, a.printer.Err, a.printer.Screen, a.printer.Width = a.out, a.Err, a.Screens.Out, a.Screens.Width
	if err := a.printer.Check(); err != nil {
		return err
	}
	// Cells are safe without the escapes of a.out. Source: no-color.org.
	if term := a.Getenv("TERM"); a.Screens.Out && a.Getenv("NO_COLOR") == "" && term != "" && term != "dumb" {
		a.printer.Colour = a.Out
	}
	return nil
}

// find returns the server to ask: the named one, or the first of places that answers.
func (a *App) find(ctx context.Context, places []string) (client.Target, error) {
	name := a.server
	if name == "" {
		name = a.Getenv(client.Variable)
	}
	if a.Places != nil {
		places = a.Places
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
	o, err := a.options()
	if err != nil {
		return nil, err
	}
	return client.Dial(ctx, t, o)
}

// options returns how to connect to servers, and how to prove an identity to them.
func (a *App) options() (o client.Options, err error) {
	o.Timeout = a.timeout
	if a.verbose {
		o.AnsweredBy = func(server string) { a.note("answered by %s, the leader", program.Safe(server)) }
	}
	either := func(flag, variable string) string { return cmp.Or(flag, a.Getenv(variable)) }
	if o.Token, err = client.Token(either(a.tokenFile, "POLYSTALK_TOKEN_FILE")); err == nil {
		o.TLS, err = client.ReadTLS(either(a.ca, "POLYSTALK_TLS_CA"), either(a.cert, "POLYSTALK_TLS_CERT"), either(a.key, "POLYSTALK_TLS_KEY"))
	}
	return o, err
}

// connect finds a server and connects to it. If the verb needs HTTP, cannot names what
// beanstalkd's protocol cannot do. The caller must close the connection.
func (a *App) connect(ctx context.Context, cannot string) (client.Server, error) {
	t, err := a.find(ctx, client.Places)
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
	a.out, a.ended = bufio.NewWriterSize(out, 1<<16), ctx.Done()
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

// pathFlag adds --path, for verbs that take names of tubes.
func (a *App) pathFlag(fs *pflag.FlagSet) {
	fs.BoolVar(&a.path, "path", false, "tube names are percent-encoded, as in the member path, so they can have any bytes")
}

// tubeName reads the name of a tube.
func (a *App) tubeName(arg string) (string, error) {
	name := arg
	if a.path {
		var err error
		if name, err = url.PathUnescape(arg); err != nil {
			return "", client.Errorf(client.Usage, "the tube %q is not percent-encoded: write %%25 for a percent sign, or leave --path out", arg)
		}
	}
	if name == "" {
		return "", client.Errorf(client.Usage, "the name of the tube is empty: give one")
	}
	return name, nil
}

// readID reads the id of a job, a connection or an operation.
func readID(arg string) (uint64, error) {
	id, err := strconv.ParseUint(arg, 10, 64)
	if err != nil || id == 0 {
		return 0, client.Errorf(client.Usage, "%q is not an id: give a number above 0", arg)
	}
	return id, nil
}

// readIDs reads ids; a single "-" means the ids on standard input.
func (a *App) readIDs(args []string) ([]uint64, error) {
	if len(args) == 1 && args[0] == "-" {
		args = nil
		words := bufio.NewScanner(a.typed())
		words.Split(bufio.ScanWords)
		for words.Scan() {
			args = append(args, words.Text())
		}
		if err := words.Err(); errors.Is(err, context.Canceled) {
			return nil, err
		} else if err != nil {
			return nil, client.Errorf(client.System, "standard input cannot be read: %v", err)
		}
	}
	var ids []uint64
	for _, arg := range args {
		id, err := readID(arg)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// readTime reads a duration: seconds such as 90 or 0.5, or 90s, 5m, 12h or 7d.
func readTime(flag, text string) (time.Duration, error) {
	unit := time.Second
	number, days := strings.CutSuffix(text, "d")
	if days {
		unit = 24 * time.Hour
	}
	if n, err := strconv.ParseFloat(number, 64); err == nil && math.Abs(n) < float64(math.MaxInt64/unit) {
		return time.Duration(n * float64(unit)), nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, client.Errorf(client.Usage, "%s %q is not a time: give seconds, or such as 90s, 5m, 12h or 7d", flag, text)
	}
	return d, nil
}

// readSeconds reads a duration in whole seconds. An empty text is 0.
func readSeconds(flag, text string) (uint32, error) {
	if text == "" {
		return 0, nil
	}
	d, err := readTime(flag, text)
	if err != nil || d < 0 || d > math.MaxUint32*time.Second || d%time.Second != 0 {
		err = client.Errorf(client.Usage, "%s %q is not a time: give whole seconds, or such as 90s, 5m, 12h or 7d", flag, text)
	}
	return uint32(d / time.Second), err
}

// A selection holds the flags that select jobs.
type selection struct {
	admin.Selection
	ids, older string // --id and --older before read
	limit      int    // 0: all
}

func (s *selection) flags(fs *pflag.FlagSet, limit int) {
	fs.StringSliceVar(&s.States, "state", nil, "ready, delayed, reserved or buried; several with commas between them")
	fs.StringVar(&s.Contains, "contains", "", "jobs with this text in the body")
	fs.StringVar(&s.ids, "id", "", "jobs with ids A-B, A- or -B")
	fs.StringVar(&s.older, "older", "", "jobs that were put at least this long ago, such as 90s, 5m, 12h or 7d")
	fs.IntVar(&s.limit, "limit", limit, "stop after this number of jobs; 0: all")
	fs.BoolVar(&s.AllTubes, "all-tubes", false, "the jobs of all tubes")
}

// read checks and reads the flags.
func (s *selection) read() (err error) {
	for _, state := range s.States {
		if !slices.Contains(admin.States, state) {
			return client.Errorf(client.Usage, "--state %q is not a state: give ready, delayed, reserved or buried", state)
		}
	}
	if s.limit < 0 {
		return client.Errorf(client.Usage, "--limit is %d: give a number, or 0 for all", s.limit)
	}
	if s.ids != "" {
		from, to, isRange := strings.Cut(s.ids, "-")
		if !isRange {
			to = from
		}
		if from != "" {
			s.MinID, err = readID(from)
		}
		if to != "" && err == nil {
			s.MaxID, err = readID(to)
		}
		if err != nil || s.ids == "-" || s.MaxID != 0 && s.MinID > s.MaxID {
			return client.Errorf(client.Usage, "--id %q is not a range: give A-B, A- or -B", s.ids)
		}
	}
	s.OlderThanSeconds, err = readSeconds("--older", s.older)
	return err
}

// list reads the flags. It returns the request for a list of jobs of the tube in the arguments,
// or of all tubes.
func (s *selection) list(r *run, body string) (client.Request, error) {
	tube, err := "", s.read()
	if err == nil && !s.AllTubes {
		tube, err = r.tubeName(r.args[0])
	}
	return s.request(tube, body), err
}

// request returns the request for a list of jobs of a tube; an empty name means all tubes.
func (s *selection) request(tube, body string) client.Request {
	q := client.Request{Method: "GET", Path: "/tubes/{tube}/jobs", Tube: tube, Query: url.Values{}, Limit: s.limit}
	if tube == "" {
		q.Path = "/jobs"
	}
	for name, value := range map[string]any{
		"state": strings.Join(s.States, ","), "contains": s.Contains, "body": body, "id_min": s.MinID, "id_max": s.MaxID, "older_than": s.OlderThanSeconds,
	} {
		if !reflect.ValueOf(value).IsZero() {
			q.Query.Set(name, fmt.Sprint(value))
		}
	}
	return q
}

// open opens a file, or standard input for "-". The error ends with the remedy.
func (a *App) open(file, remedy string) (io.ReadCloser, error) {
	if file == "-" {
		if f, ok := a.In.(*os.File); ok {
			if s, err := f.Stat(); err == nil && s.Mode().IsRegular() {
				return f, nil // its size is known
			}
		}
		return io.NopCloser(a.typed()), nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, client.Errorf(client.System, "the file cannot be read: %v: %s", err, remedy)
	}
	return f, nil
}

// A typed reads what a person types, or a pipe. An interrupt ends a Read, which the operating system
// would not end.
type typed struct{ a *App }

func (a *App) typed() io.Reader { return typed{a} }

// Read implements io.Reader.
func (t typed) Read(b []byte) (n int, err error) {
	read := make([]byte, min(len(b), 1<<16)) // a pipe returns no more
	done := make(chan struct{})
	var got int
	var failed error
	go func() {
		got, failed = t.a.In.Read(read)
		close(done)
	}()
	select {
	case <-done:
		return copy(b, read[:got]), failed
	case <-t.a.ended:
		return 0, context.Canceled
	}
}
