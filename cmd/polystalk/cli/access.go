package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"polystalk/cmd/polystalk/access"
	"polystalk/cmd/polystalk/client"
	"polystalk/codec/admin"
	"polystalk/codec/tomlfile"
)

// roles and the other lists are the values of keys of the access file.
var (
	roles  = []string{"read", "operate", "admin"}
	levels = []string{"none", "read", "admin"}
	parts  = []string{"none", "preview", "full"}
	rights = []string{"put", "work", "look", "manage"}
)

// accessVerb returns the verb with the commands about identities. Some read a file if there is
// --file, and ask the server otherwise.
func (a *App) accessVerb() verb {
	var (
		file          string
		write, follow bool
	)
	aFile := func(fs *pflag.FlagSet) {
		fs.StringVar(&file, "file", "", "read this access file, and ask no server")
	}
	// get returns an identity, with its verbs on a tube if there is one in the arguments.
	get := func(r *run, tube ...string) (v admin.Identity, err error) {
		q := client.Request{Method: "GET", Path: "/identities/{name}", Node: r.args[0]}
		for _, name := range tube {
			if name, err = r.tubeName(name); err != nil {
				return v, err
			}
			q.Query = url.Values{"tube": {name}}
		}
		if r.changed("file") {
			v, err = access.Show(file, r.args[0], q.Query.Get("tube"))
			return v, r.faults(err)
		}
		if err = r.askAccess(q, &v); err == nil && tube != nil && v.Tube == nil {
			err = client.Errorf(client.System, "the server does not explain the verbs: use the polystalk of its version")
		}
		return v, err
	}
	return verb{
		use: "access", short: "make, list, test and explain the identities of polystalkd's --access-file",
		examples: `polystalk access new web --put 'mail-*' --look 'mail-*' --file access.toml --write
polystalk access rotate web --file access.toml
polystalk access test web put mail-1 --file access.toml
polystalk access explain web mail-1
polystalk access denials --follow`,
		verbs: []verb{
			a.newVerb(),
			{
				use: "rotate NAME", short: "make a second token for an identity of --file",
				long: `Shows a token, and the line of --file to change; --write changes it. Both tokens are valid
after polystalk reload. Give clients the new one, remove the old one, and reload again.`,
				flags: func(fs *pflag.FlagSet) { toWrite(fs, &file, &write) },
				local: func(r *run) error { return r.rotate(file, write) },
			},
			{
				use: "list", short: "list the identities", flags: aFile, reads: true,
				local: func(r *run) error {
					var all admin.Identities
					var err error
					if r.changed("file") {
						all, err = access.List(file)
						err = r.faults(err)
					} else {
						err = r.askAccess(client.Request{Method: "GET", Path: "/identities"}, &all)
					}
					return r.show(all, client.IdentitiesView, err)
				},
			},
			{
				use: "show NAME", short: "show an identity", flags: aFile, reads: true,
				local: func(r *run) error {
					v, err := get(r)
					return r.show(v, client.IdentityView, err)
				},
			},
			{
				use: "test NAME VERB TUBE", short: "test a right; exit code 0: permitted, 3: not permitted", flags: aFile, reads: true,
				long: "VERB is put, work, look or manage.",
				local: func(r *run) error {
					verb := r.args[1]
					if !slices.Contains(rights, verb) {
						return r.usagef("%q is not a verb: give %s", verb, strings.Join(rights, ", "))
					}
					v, err := get(r, r.args[2])
					if err != nil {
						return err
					}
					d := decisions(v)[slices.Index(rights, verb)]
					if err := r.show(d, client.VerbView, nil); err != nil || d.Permitted {
						return err
					}
					return client.Errorf(client.Refused, "%s may not %s in %s: change its patterns in the access file, or use another tube", v.Name, verb, v.Tube.Name)
				},
			},
			{
				use: "explain NAME TUBE", short: "show each verb on a tube, with the pattern that decides it", flags: aFile, reads: true,
				local: func(r *run) error {
					v, err := get(r, r.args[1])
					if err != nil {
						return err
					}
					return r.show(map[string]any{"identity": v.Name, "tube": v.Tube.Name, "verbs": decisions(v)}, client.ExplainView, nil)
				},
			},
			{
				use: "whoami", short: "show the identity by which the server knows you", reads: true,
				cannot: "say who you are", path: "/session", view: client.SessionView,
			},
			{
				use: "denials", short: "list what the server has refused lately, the newest first", reads: true, cannot: "list what was refused",
				flags: func(fs *pflag.FlagSet) {
					fs.BoolVar(&follow, "follow", false, "show what is refused from now on, until Ctrl-C")
				},
				do: func(r *run) error {
					if follow {
						return r.followDenials()
					}
					var d admin.Denials
					_, err := r.read("/denials", "", &d)
					return r.show(d, client.DenialsView, err)
				},
			},
			{
				use: "convert TOKENS-FILE", short: "print the access file for a file of --http-tokens-file, with the same tokens", reads: true,
				local: func(r *run) error {
					text, err := access.Convert(r.args[0])
					if err == nil {
						_, err = r.out.WriteString(text)
					}
					return r.faults(err)
				},
			},
		},
	}
}

// toWrite adds the flags of commands that may change the file.
func toWrite(fs *pflag.FlagSet, file *string, write *bool) {
	fs.StringVar(file, "file", "", "the access file that is to have it")
	fs.BoolVar(write, "write", false, "change the file; it keeps its mode, owner and comments")
}

// newVerb returns the command that makes an identity.
func (a *App) newVerb() verb {
	var file string
	var write bool
	var g access.Grants
	return verb{
		use: "new NAME", short: "make a token, and an identity for the access file",
		long: `Shows a token for the clients, and the identity as a table in TOML. The table has only the
digest of the token. With --write it goes to the end of --file, and only the token is shown:
-o name shows it alone. No server is asked; polystalk reload makes servers read the file.`,
		flags: func(fs *pflag.FlagSet) {
			toWrite(fs, &file, &write)
			fs.StringArrayVar(&g.Put, "put", nil, "it may put into tubes like this `PATTERN`; may be given several times, as the next three")
			fs.StringArrayVar(&g.Work, "work", nil, "it may reserve jobs of such tubes")
			fs.StringArrayVar(&g.Look, "look", nil, "it may see such tubes and their jobs")
			fs.StringArrayVar(&g.Manage, "manage", nil, "it may change, move and delete jobs of such tubes")
			fs.StringVar(&g.Server, "level", "", "what it may do with the server itself: none, read or admin")
			fs.StringVar(&g.Bodies, "bodies", "", "what it sees of bodies: none, preview or full")
			fs.StringVar(&g.Role, "role", "", "instead of all these: read, operate or admin")
		},
		local: func(r *run) error { return r.newIdentity(file, write, g) },
	}
}

// newIdentity runs access new.
func (r *run) newIdentity(file string, write bool, g access.Grants) error {
	if write && file == "" {
		return r.usagef("--write changes a file: name it by --file")
	}
	if len(g.Put)+len(g.Work)+len(g.Look)+len(g.Manage) == 0 && g.Role == "" && g.Server == "" {
		return r.usagef("the identity would have no right: give --put, --work, --look or --manage with a pattern of tubes, or --role")
	}
	token, table, err := access.New(r.args[0], g)
	if err != nil {
		return err
	}
	var text []byte
	if file != "" {
		if text, err = access.Add(file, table); err != nil {
			return r.faults(err)
		}
	}
	if write {
		if err := access.Save(file, text); err != nil {
			return err
		}
		r.note("%s has the identity %s: run polystalk reload", file, r.args[0])
		return r.show(map[string]string{"token": token}, client.TokenView, nil)
	}
	if r.printer.IsTable() {
		_, err := r.out.WriteString("token  " + token + "\n" + table)
		return err
	}
	return r.show(map[string]string{"token": token, "table": table}, client.TokenView, nil)
}

// rotate runs access rotate.
func (r *run) rotate(file string, write bool) error {
	if file == "" {
		return r.usagef("the access file is missing: name it by --file")
	}
	next, err := access.Rotate(file, r.args[0])
	if err != nil {
		return r.faults(err)
	}
	if write {
		if err := access.Save(file, next.File); err != nil {
			return err
		}
		r.note("%s:%d has the new token: run polystalk reload, change the clients, then remove the old one, which is the first", file, next.Line)
		return r.show(map[string]string{"token": next.Token}, client.TokenView, nil)
	}
	return r.show(map[string]any{"token": next.Token, "line": next.Line, "text": next.Text}, client.RotateView, nil)
}

// askAccess asks the server for a document about identities.
func (r *run) askAccess(q client.Request, v any) (err error) {
	if r.server, err = r.connect(r.ctx, "list identities"); err != nil {
		return err
	}
	defer r.server.Close()
	answer, err := r.server.Ask(r.ctx, q)
	if err == nil {
		err = answer.Read(v)
	}
	return err
}

// show shows a value, unless there is an error.
func (r *run) show(v any, view client.View, err error) error {
	if err != nil {
		return err
	}
	document, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return r.printer.Show(document, view)
}

// faults notes all faults of a file, and returns the error for the last line.
func (r *run) faults(err error) error {
	list, ok := errors.AsType[tomlfile.Errors](err)
	if !ok {
		return err
	}
	for _, one := range list[:len(list)-1] {
		r.note("%v", one)
	}
	return client.Errorf(client.Usage, "%v", list[len(list)-1])
}

// A decision tells whether an identity has a verb, and why.
type decision struct {
	Verb      string `json:"verb"`
	Permitted bool   `json:"permitted"`
	Because   string `json:"because"`
}

// decisions returns the verbs of an identity on the tube that v explains.
func decisions(v admin.Identity) (all []decision) {
	for _, verb := range rights {
		all = append(all, decision{verb, slices.Contains(v.Tube.Verbs, verb), cmp.Or(v.Tube.Because[verb], "no pattern matches")})
	}
	return all
}

// denialsEach is the time between two looks at the denials.
const denialsEach = time.Second

// followDenials shows denials from now on. One that goes on is shown again with its new count.
func (r *run) followDenials() error {
	list, from := r.printer.List(client.DenialsView), time.Time{}
	for first := true; ; first = false {
		var d admin.Denials
		if _, err := r.read("/denials", "", &d); err != nil {
			return err
		}
		last, since := from, from
		d.Denials = slices.DeleteFunc(d.Denials, func(one admin.Denial) bool {
			if one.Last.After(last) {
				last = one.Last
			}
			return first || !one.Last.After(since)
		})
		from = last
		if len(d.Denials) > 0 {
			slices.Reverse(d.Denials)
			document, err := json.Marshal(d)
			if err == nil {
				err = list.Page(document)
			}
			if err != nil {
				return err
			}
		}
		if err := r.out.Flush(); err != nil {
			return err
		}
		select {
		case <-r.ctx.Done():
			return list.Close()
		case <-time.After(denialsEach):
		}
	}
}
