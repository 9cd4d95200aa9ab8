package cli

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"polystalk/cmd/polystalk/client"
	"polystalk/codec/admin"
	"polystalk/codec/tomlfile"
)

// policyVerb returns the verb with the commands about policies.
func (a *App) policyVerb() verb {
	const cannot = "have policies"
	var c consent
	flags := func(fs *pflag.FlagSet) {
		a.pathFlag(fs)
		fs.BoolVar(&c.yes, "yes", false, "do not ask for confirmation if jobs end at once")
		fs.BoolVar(&c.dryRun, "dry-run", false, "change nothing: count the jobs that the change would end at once")
	}
	return verb{
		use: "policy", short: "list, show and set policies of tubes: retries, back-off, expiry, limits and rates",
		long: `Lists the policies. A policy tells the server what to do with the jobs of some tubes. MATCH is
the name of a tube, or the beginning of names and *. The longest match wins, and applies as a
whole: options are not merged.`,
		examples: `polystalk policy set 'mail.*' attempts=5 backoff=2s..1h ttl=1d
polystalk policy show mail.welcome
polystalk policy apply policies.toml --dry-run`,
		reads: true, cannot: cannot, path: "/policies", view: client.PoliciesView,
		verbs: []verb{
			{use: "show TUBE", short: "show the policy that applies to a tube, and why", flags: a.pathFlag, reads: true, cannot: cannot, do: showPolicy},
			{
				use: "set MATCH OPTION=VALUE...", short: "set the policy of the tubes that MATCH names", flags: flags, cannot: cannot,
				long: `Replaces the whole policy of MATCH: an option that is not given is no longer set. If the change
deletes or buries jobs at once, it asks for confirmation on a terminal; elsewhere give --yes.

  attempts=N            every Nth failed attempt buries the job
  backoff=TIME..TIME    a failed attempt delays the job: the first delay, and the longest
  ttl=TIME expired=A    a job that is ready for so long ends: delete, the default, or bury
  max-jobs=N            the most jobs that wait, ready or delayed
  max-bytes=SIZE        the most bytes of bodies, such as 500MB
  full=A                at these two limits: refuse, the default, or drop-oldest
  running=N             the most reserved jobs; 0 holds the tube
  per-second=N burst=N  the most reserves in a second, and at once
  buried-ttl=TIME       a buried job is deleted after this time
  max-buried=N          the most buried jobs; the oldest are deleted
  note=TEXT             the reason, for other operators`,
				examples: "polystalk policy set api per-second=50 burst=10 note='limit of the contract'",
				view:     client.PolicyView,
				do: func(r *run) error {
					match, err := r.match(r.args[0])
					if err != nil {
						return err
					}
					p := map[string]any{"match": match}
					for _, arg := range r.args[1:] {
						name, value, _ := strings.Cut(arg, "=")
						if err := client.SetOption(p, name, value); err != nil {
							return err
						}
					}
					q := client.Request{Method: "PUT", Path: "/policies/{match}", Node: match, JSON: p}
					return r.changePolicies(&c, q, q, "")
				},
			},
			{
				use: "remove MATCH", short: "remove a policy", flags: flags, cannot: cannot,
				long: `Then another policy can apply to the tubes. It asks for confirmation as policy set does.`,
				view: client.PoliciesView,
				do:   func(r *run) error { return r.removePolicy(&c) },
			},
			{
				use: "apply FILE", short: "make the policies of a file in TOML the only ones", flags: flags, cannot: cannot,
				long: `Shows and makes the changes; nothing changes if another operator is faster. A second time there
are none. Each policy is a table [policy."MATCH"] with the options of policy set as keys, as in
attempts = 5 or backoff = "2s..1h". A file without a table removes all policies. It asks for
confirmation as policy set does.`,
				view: client.PoliciesView,
				do:   func(r *run) error { return r.applyPolicies(&c) },
			},
		},
	}
}

// match reads the match of a policy.
func (a *App) match(arg string) (string, error) {
	if arg == "*" {
		return arg, nil
	}
	prefix, isPrefix := strings.CutSuffix(arg, "*")
	name, err := a.tubeName(prefix)
	if name = admin.PathName(name); isPrefix {
		name += "*"
	}
	return name, err
}

// showPolicy shows the policy of a tube, which need not exist.
func showPolicy(r *run) error {
	tube, err := r.tubeName(r.args[0])
	var all admin.Policies
	if err == nil {
		_, err = r.read("/policies", "", &all)
	}
	if err != nil {
		return err
	}
	rank := func(p admin.PolicyView) int { // the length of the match; -1: it does not match
		prefix, isPrefix := strings.CutSuffix(p.Match, "*")
		name, _ := url.PathUnescape(prefix) // the server has escaped it
		switch {
		case isPrefix && strings.HasPrefix(tube, name):
			return len(name)
		case !isPrefix && tube == name:
			return len(name) + 1
		}
		return -1
	}
	of := slices.DeleteFunc(all.Policies, func(p admin.PolicyView) bool { return rank(p) < 0 })
	slices.SortFunc(of, func(p, q admin.PolicyView) int { return rank(q) - rank(p) })
	because := "no other policy matches"
	switch {
	case len(of) == 0:
		return client.Errorf(client.Nothing, "no policy matches the tube %s: polystalk policy lists the policies", admin.ShownName(tube))
	case len(of) > 1:
		because = of[1].Match + " matches less of the name"
	}
	return r.show(struct {
		Tube    string `json:"tube"`
		Because string `json:"because"`
		admin.PolicyView
	}{admin.ShownName(tube), because, of[0]}, client.TubePolicyView, nil)
}

// A policySet is all policies as the API has them.
type policySet struct {
	Policies []map[string]any `json:"policies"`
}

// changePolicies carries out a change if the operator agrees to the jobs that it ends at once. The
// request count counts these in a dry run. says describes the change.
func (r *run) changePolicies(c *consent, change, count client.Request, says string) error {
	count.Query = url.Values{"dry_run": {"true"}}
	a, err := r.server.Ask(r.ctx, count)
	var dry struct { // one policy, or all
		admin.Policies
		Effect *admin.Effects `json:"effect"`
	}
	if err == nil {
		err = a.Read(&dry)
	}
	if err != nil {
		return err
	}
	var all admin.Effects
	for _, p := range append(dry.Policies.Policies, admin.PolicyView{Effect: dry.Effect}) {
		if e := p.Effect; e != nil {
			all = admin.Effects{Expired: all.Expired + e.Expired, Dropped: all.Dropped + e.Dropped, Partial: all.Partial || e.Partial}
		}
	}
	ended := all.Expired + all.Dropped
	ends := fmt.Sprintf("%s (%d expired, %d above a limit)", jobs(ended), all.Expired, all.Dropped)
	if all.Partial {
		ends = "at least " + ends
	}
	if c.dryRun {
		r.view.Columns = slices.Concat(r.view.Columns, r.view.Wide)
	} else {
		if ended > 0 || all.Partial {
			says += "policy: deleted or buried " + ends + "\n"
			err = r.confirm(r.ctx, c, "delete or bury "+ends)
		}
		if err == nil {
			a, err = r.server.Ask(r.ctx, change)
		}
	}
	if err == nil && r.printer.IsTable() {
		fmt.Fprint(r.out, says)
	}
	if err == nil && a.Document != nil {
		err = r.printer.Show(a.Document, r.view)
	}
	return err
}

// removePolicy removes a policy.
func (r *run) removePolicy(c *consent) error {
	match, err := r.match(r.args[0])
	var set policySet
	if err == nil {
		_, err = r.read("/policies", "", &set)
	}
	if err != nil {
		return err
	}
	set.Policies = slices.DeleteFunc(set.Policies, func(p map[string]any) bool { return p["match"] == match })
	says := ""
	if !c.dryRun {
		says = "policy: " + admin.ShownName(r.args[0]) + " is removed\n"
	}
	return r.changePolicies(c, client.Request{Method: "DELETE", Path: "/policies/{match}", Node: match},
		client.Request{Method: "PUT", Path: "/policies", JSON: set}, says)
}

// applyPolicies makes the policies of a file the only ones.
func (r *run) applyPolicies(c *consent) error {
	want, err := r.policiesOf(r.args[0])
	if err != nil {
		return err
	}
	var have policySet
	a, err := r.read("/policies", "", &have)
	if err != nil {
		return err
	}
	changes := append(have.without(want, "-"), want.without(have, "+")...)
	if len(changes) == 0 {
		return r.printer.Show(a.Document, r.view)
	}
	q := client.Request{Method: "PUT", Path: "/policies", JSON: want, IfMatch: a.Tag}
	err = r.changePolicies(c, q, q, strings.Join(changes, ""))
	if e, ok := errors.AsType[*client.Error](err); ok && client.Unchanged(err) && e.Code != client.Unconfirmed {
		e.Line = "nothing was changed: " + e.Line
	}
	return err
}

// without returns a line with a sign for each policy that is not the same in other.
func (s policySet) without(other policySet, sign string) (lines []string) {
	line := func(p map[string]any) string { return fmt.Sprintln(p["match"], client.OptionsOf(p)) }
	for _, p := range s.Policies {
		if !slices.ContainsFunc(other.Policies, func(o map[string]any) bool { return line(o) == line(p) }) {
			lines = append(lines, sign+" "+line(p))
		}
	}
	return lines
}

// bareMatch matches a table with a match that is not in quotes.
var bareMatch = regexp.MustCompile(`^\[policy\.([^]"']+)\]`)

// policiesOf reads a file.
func (r *run) policiesOf(file string) (set policySet, err error) {
	in, err := r.open(file, "give a file in TOML, or - for standard input")
	if err != nil {
		return set, err
	}
	defer in.Close()
	text, err := io.ReadAll(in)
	if err != nil {
		return set, err
	}
	set.Policies = []map[string]any{}
	tables := make(map[string]map[string]any)
	keys, faults := tomlfile.Parse(file, text, func(at tomlfile.Place, table string) *tomlfile.Error {
		arg, ok := strings.CutPrefix(table, "policy.")
		match, err := r.match(arg)
		if !ok || err != nil || tables[table] != nil {
			return at.Errorf(`[%s] is no policy, or is there twice: write [policy."MATCH"] once`, table)
		}
		tables[table] = map[string]any{"match": match}
		set.Policies = append(set.Policies, tables[table])
		return nil
	})
	for _, k := range keys {
		p, err := tables[k.Table], fmt.Errorf(`%s is in no table [policy."MATCH"], or neither a number nor a text in quotes: move or change it`, k.Name)
		switch k.Value.(type) {
		case string, int64, float64:
			if p != nil {
				err = client.SetOption(p, k.Name, fmt.Sprint(k.Value))
			}
		}
		if err != nil {
			faults = append(faults, k.Errorf("%v", err))
		}
	}
	for _, f := range faults {
		if m := bareMatch.FindStringSubmatch(f.Text); m != nil && tables["policy."+m[1]] == nil {
			f.Message = fmt.Sprintf(`the match %s is not in quotes: write [policy."%[1]s"]`, m[1])
		}
	}
	if len(faults) > 0 {
		err = r.faults(faults)
	}
	return set, err
}
