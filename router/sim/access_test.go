package sim

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"polystalk/router"
	"polystalk/router/access"
)

// An accessFile is an access file that a test changes.
type accessFile struct {
	path string
	ids  *access.Identities
}

func newAccessFile(t testing.TB, text string) *accessFile {
	t.Helper()
	f := &accessFile{path: filepath.Join(t.TempDir(), "access.toml")}
	err := os.WriteFile(f.path, []byte(text), 0o600)
	if err == nil {
		f.ids, err = access.Open(f.path)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestReloadsOfTheAccessFile lets clients of several identities work while the access file changes.
// Once a reload has returned, no reply is one that the new file forbids. Sessions that kept their
// rights stay open, and no session keeps a tube that it may not watch.
func TestReloadsOfTheAccessFile(t *testing.T) {
	seen := map[string]int{}
	seeds(t, 150, func(seed uint64) error {
		a := newAccessChaos(t, seed, seen)
		return a.run(1500)
	})
	wantSeen(t, seen, "reloads", "killed", "denied put", "denied watch", "denied reserve", "denied kick", "unproven", "permitted put",
		"permitted reserve", "permitted delete", "unauthorized", "authenticated")
}

// An accessChaos is a chaos with an access file that changes.
type accessChaos struct {
	*chaos
	*accessJudge
}

// An accessJudge knows all contents of the file so far.
type accessJudge struct {
	c    *chaos
	t    *testing.T
	file *accessFile
	all  []*access.Identities // by version
	// from is the oldest version by which a command that runs now may be decided: an older one
	// than the newest while a reload is under way. before is its value at the beginning of a step.
	from, before int
	tubes        map[string]string // of jobs, by body
}

// A holder is a client with an access file.
type holder struct {
	token   string   // empty: none
	used    string   // the tube that it uses after all that it has sent
	watched []string // what it watched when the last reload began
	at      int      // its next reply is decided by this version or a later one
	last    int      // the last reply was
	refused bool     // the server closes behind a reply
}

func newAccessChaos(t *testing.T, seed uint64, seen map[string]int) *accessChaos {
	j := &accessJudge{t: t, tubes: map[string]string{}}
	j.file = newAccessFile(t, "[identity.default]\n")
	c := newChaos(seed, router.Config{Access: j.file.ids}, seen)
	c.access, j.c = j, c
	if len(c.names) > 10 {
		c.names = c.names[:10] // else each client watches all of them
	}
	j.change()
	j.from, j.before = 0, 0
	return &accessChaos{c, j}
}

func (a *accessChaos) run(n int) error {
	defer a.w.Close()
	step := func() error {
		a.before = a.from
		if a.rng.IntN(50) == 0 && a.from == len(a.all)-1 {
			a.reload()
			return nil
		}
		return a.chaos.step()
	}
	rest := func() error {
		a.before = a.from
		err := a.chaos.rest()
		if err == nil {
			err = a.closedAll()
		}
		return err
	}
	return a.play(n, step, rest, func() {})
}

// closedAll checks, at rest, that no session keeps what it may not have.
func (a *accessChaos) closedAll() error {
	if a.from != len(a.all)-1 {
		return errors.New("a reload does not end")
	}
	for _, cn := range a.live {
		for _, tube := range cn.k.s.Snapshot(100).Client.Watched {
			if yes, _ := a.may(cn, a.from, access.Work, tube); !yes {
				return fmt.Errorf("a client watches %q, and may not", tube)
			}
		}
	}
	return nil
}

// reload changes the file. The sessions are checked later, or at once.
func (a *accessChaos) reload() {
	for _, cn := range a.live {
		if cn.k.Ended || cn.k.broken {
			continue
		}
		cn.watched = cn.k.s.Snapshot(100).Client.Watched
		if len(cn.watched) == 0 { // the default tube is being opened, perhaps
			cn.watched = append(cn.watched, "default")
		}
	}
	a.change()
	a.seen["reloads"]++
	version := len(a.all) - 1
	a.w.D.Server.Host().Reauthorize(func(int) { a.from = version })
}

// change writes another file, and makes the server read it.
func (j *accessJudge) change() {
	if err := os.WriteFile(j.file.path, []byte(j.text()), 0o600); err != nil {
		j.t.Fatal(err)
	}
	use, err := j.file.ids.Prepare()
	if err != nil {
		j.t.Fatal(err)
	}
	use()
	ids, err := access.Open(j.file.path)
	if err != nil {
		j.t.Fatal(err)
	}
	j.all = append(j.all, ids)
}

// text draws a file.
func (j *accessJudge) text() string {
	rng := j.c.rng
	var b strings.Builder
	b.WriteString("plaintext-tokens = true\n[identity.x]\n")
	verbs := func(most int) {
		for _, verb := range []string{"put", "work", "look", "manage"} {
			if rng.IntN(most) == 0 {
				continue
			}
			list := []string{j.c.pick("*", "*", "tube-*", "default")}
			if rng.IntN(3) == 0 {
				list = append(list, j.c.pick("!tube-1", "!default", "!tube-?", "tube-2"))
			}
			fmt.Fprintf(&b, "%s = [\"%s\"]\n", verb, strings.Join(list, `", "`))
		}
		if rng.IntN(2) == 0 {
			b.WriteString("server = \"read\"\n")
		}
	}
	for i := range 3 {
		if rng.IntN(12) == 0 {
			continue
		}
		fmt.Fprintf(&b, "[identity.i%d]\ntokens = [", i)
		for n := range 2 {
			if rng.IntN(8) > 0 {
				fmt.Fprintf(&b, "\"sha256:%x\",", access.DigestOf(tokenOf(i, n)))
			}
		}
		b.WriteString("]\n")
		verbs(6)
	}
	if rng.IntN(3) == 0 {
		b.WriteString("[identity.default]\n")
		verbs(3)
	}
	return b.String()
}

func tokenOf(identity, n int) string { return fmt.Sprintf("a-token-of-the-tests-%d-%d", identity, n) }

// open makes most new clients authenticate.
func (j *accessJudge) open(cn *chaosConn) {
	cn.used = "default"
	cn.at = j.before
	if j.c.rng.IntN(8) > 0 {
		cn.token = tokenOf(j.c.rng.IntN(3), j.c.rng.IntN(2))
		q := question{line: "auth " + cn.token}
		j.asks(cn, &q)
		cn.asked = append(cn.asked, q)
		cn.k.Send(q.bytes())
	}
}

// asks notes what the judge must know of a command that is sent.
func (j *accessJudge) asks(cn *chaosConn, q *question) {
	if tube, ok := strings.CutPrefix(q.line, "use "); ok {
		cn.used = tube
	}
	q.used, q.since = cn.used, j.before
	if q.body != "" {
		j.tubes[q.body] = cn.used
	}
}

// credential returns a client's credential in a version. A refused token has none.
func (j *accessJudge) credential(cn *chaosConn, version int) *access.Credential {
	if cn.token != "" {
		return j.all[version].Token(cn.token)
	}
	return j.all[version].Client(0, false, netip.Addr{})
}

// may reports whether some version from the given one on gives the client a verb, and whether some
// does not. The empty tube is the server.
func (j *accessJudge) may(cn *chaosConn, from int, need access.Verbs, tube string) (yes, no bool) {
	for v := from; v < len(j.all); v++ {
		c := j.credential(cn, v)
		has := c != nil && (tube == "" && c.Level() >= access.ReadLevel || tube != "" && c.Verbs([]byte(tube))&need != 0)
		yes, no = yes || has, no || !has
	}
	return yes, no
}

// needs has the verb that a command needs.
var needs = map[string]access.Verbs{
	"put": access.Put, "kick": access.Manage, "peek-ready": access.Look, "peek-delayed": access.Look, "peek-buried": access.Look,
	"watch": access.Work, "stats-tube": access.Look, "pause-tube": access.Manage, "reserve": access.Work, "reserve-with-timeout": access.Work,
	"reserve-job": access.Work, "kick-job": access.Manage, "peek": access.Look, "stats-job": access.Look, "delete": access.Manage, "stats": access.Look,
}

// judge checks a reply against the file. It reports whether the command was denied, so that the
// reply has no other meaning.
func (j *accessJudge) judge(cn *chaosConn, q question, asked, words []string, body string) (denied bool, err error) {
	from := max(cn.at, q.since)
	cn.last, cn.at = from, j.before
	word, seen := asked[0], j.c.seen
	if word == "auth" {
		valid, invalid := false, false
		for _, ids := range j.all[from:] {
			valid, invalid = valid || ids.Token(cn.token) != nil, invalid || ids.Token(cn.token) == nil
		}
		switch {
		case words[0] == "AUTHENTICATED" && valid:
			seen["authenticated"]++
		case words[0] == "UNAUTHORIZED" && invalid:
			seen["unauthorized"]++
			cn.refused = true
		default:
			return false, fmt.Errorf("the token is valid: %v, invalid: %v", valid, invalid)
		}
		return true, nil
	}
	if words[0] == "UNKNOWN_COMMAND" && word != "nonsense" {
		return true, j.judgeDenial(cn, q, asked, from)
	}
	if words[0] == "UNKNOWN_COMMAND" && cn.token == "" && j.empty(from) {
		cn.refused = true // perhaps it has no right
		return true, nil
	}
	need, tube := needs[word], q.used
	switch word {
	case "list-tubes":
		for line := range strings.Lines(body) {
			if name, ok := strings.CutPrefix(line, "- "); ok {
				if yes, _ := j.may(cn, from, access.Every, strings.TrimSuffix(name, "\n")); !yes {
					return false, fmt.Errorf("it shows %q", name)
				}
			}
		}
		return false, nil
	case "use", "list-tube-used":
		if words[1] != q.used {
			return false, fmt.Errorf("it uses %q", q.used)
		}
		return false, nil
	case "watch", "stats-tube", "pause-tube":
		tube = asked[1]
	case "stats":
		tube = ""
	case "reserve", "reserve-with-timeout", "peek", "reserve-job":
		tube = j.tubes[body]
	case "stats-job", "kick-job", "delete":
		var id uint64
		fmt.Sscan(asked[1], &id)
		if word == "delete" && cn.told[id] {
			need = 0
		}
		tube = j.tubes[j.c.inserted[id]]
	}
	if need == 0 || slices.Contains([]string{"NOT_FOUND", "TIMED_OUT", "DEADLINE_SOON", "JOB_TOO_BIG", "BAD_FORMAT"}, words[0]) {
		return false, nil
	}
	if tube == "" && word != "stats" {
		return false, nil // a job whose put has no reply
	}
	if yes, _ := j.may(cn, from, need, tube); !yes {
		return false, fmt.Errorf("no file from version %d of %d gives %v on %q", from, len(j.all), need, tube)
	}
	seen["permitted "+word]++
	return false, nil
}

// empty reports whether a client without a token had no right at all, at some time.
func (j *accessJudge) empty(from int) bool {
	return slices.ContainsFunc(j.all[from:], func(ids *access.Identities) bool { return ids.Client(0, false, netip.Addr{}).IsEmpty() })
}

// judgeDenial checks UNKNOWN_COMMAND as the reply to a command that exists.
func (j *accessJudge) judgeDenial(cn *chaosConn, q question, asked []string, from int) error {
	if cn.token == "" && j.empty(from) {
		j.c.seen["unproven"]++
		cn.refused = true
		return nil
	}
	tube, word := q.used, strings.TrimSuffix(asked[0], "-with-timeout")
	switch word {
	case "put", "kick":
	case "watch":
		tube, cn.refused = asked[1], true
	case "reserve":
		tube = "default"
	case "stats":
		tube = ""
	default:
		return errors.New("this command is never refused so")
	}
	if _, no := j.may(cn, from, needs[word], tube); !no {
		return fmt.Errorf("every file from version %d of %d gives %v on %q", from, len(j.all), needs[word], tube)
	}
	j.c.seen["denied "+word]++
	return nil
}

// closed checks whether the server may have closed a connection.
func (j *accessJudge) closed(cn *chaosConn) error {
	if cn.refused || len(cn.asked) == 1 && cn.asked[0].line == "quit" {
		return nil
	}
	tubes := cn.watched
	for _, q := range cn.asked {
		if tube, ok := strings.CutPrefix(q.line, "watch "); ok {
			tubes = append(tubes, tube)
		}
	}
	// A session that is killed during an operation may still send its reply.
	for v := cn.last; v < len(j.all); v++ {
		c := j.credential(cn, v)
		if c.Identity() == nil || slices.ContainsFunc(tubes, func(tube string) bool { return c.Verbs([]byte(tube))&access.Work == 0 }) {
			j.c.seen["killed"]++
			return nil
		}
	}
	return fmt.Errorf("the server has closed a connection with all its rights: token %q, it watched %q at version %d, now %d; %d commands have no reply",
		cn.token, tubes, cn.last, len(j.all), len(cn.asked))
}
