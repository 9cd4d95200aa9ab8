package http

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
	"polystalk/router/admin"
	"polystalk/shard/core"
)

// A need is what a client needs for a route. The zero value is a route for everybody.
type need struct {
	some  bool         // any right; the handler checks the rest
	level access.Level // of the server
	// verb is needed on the tube {tube} or on the tube of the job {id} in the path. On other paths
	// it is needed on some tube, and the handler checks the tubes of the request.
	verb access.Verbs
	all  bool // the verb is needed on every tube
}

var (
	nothing     = need{}
	someRight   = need{some: true}
	readServer  = need{some: true, level: access.ReadLevel}
	adminServer = need{some: true, level: access.AdminLevel}
	look        = need{some: true, verb: access.Look}
	put         = need{some: true, verb: access.Put}
	manage      = need{some: true, verb: access.Manage}
	// A policy ends jobs of tubes that need not exist yet.
	manageAll = need{some: true, verb: access.Manage, all: true}
)

// String says what is needed, for problems and the description.
func (n need) String() string {
	switch {
	case n.level != access.NoLevel:
		return fmt.Sprintf("the level %v of the server", n.level)
	case n.all:
		return fmt.Sprintf("the verb %v on every tube", n.verb)
	case n.verb != 0:
		return fmt.Sprintf("the verb %v", n.verb)
	case n.some:
		return "any right"
	}
	return "nothing"
}

// permits checks the rights that c's route needs, apart from the tubes of jobs: see withJob.
func (a *API) permits(c *call) error {
	n := c.rt.need
	switch {
	case !n.some:
		return nil
	case c.denied != nil:
		return c.denied
	case c.By.IsEmpty() && !c.proven():
		return wire.NoToken.Problem(fmt.Sprintf("this needs %v, but the request has no token", n))
	case c.By.Level() < n.level:
		// The file may have changed since the client was identified.
		if err := a.identify(c); err != nil || c.By.Level() >= n.level {
			return err
		}
		return a.refuse(c, 0, "", n.String())
	case n.all:
		return a.mayOnJobs(c, n.verb, &admin.JobQuery{AllTubes: true})
	case strings.Contains(c.rt.pattern, "{tube}"):
		return a.mayOn(c, n.verb, tubeOf(c))
	case strings.Contains(c.rt.pattern, "/jobs/{id}") && !c.By.Everywhere(access.Look):
		return nil // jobs that the client does not see are not found, whatever its verbs
	case c.By.Some()&n.verb != n.verb:
		return a.refuse(c, n.verb, "", n.String()+" on some tube")
	}
	return nil
}

// mayOn returns nil if the client has a verb on a tube. Otherwise it returns a problem that does
// not depend on whether the tube exists. Without look, it is the problem of a missing tube.
func (a *API) mayOn(c *call, verb access.Verbs, tube string) error {
	has := c.By.Verbs([]byte(tube))
	if has&verb == verb {
		return nil
	}
	err := a.refuse(c, verb, tube, fmt.Sprintf("the verb %v on the tube %q", verb, wire.ShownName(tube)))
	if has&access.Look == 0 && !c.operates {
		return admin.NoTube(tube)
	}
	return err
}

// mayOnJobs is mayOn for the tube of an operation, or for all tubes.
func (a *API) mayOnJobs(c *call, verb access.Verbs, q *admin.JobQuery) error {
	if !q.AllTubes {
		return a.mayOn(c, verb, q.Tube)
	}
	if c.By.Everywhere(verb) {
		return nil
	}
	return a.refuse(c, verb, "", fmt.Sprintf("the verb %v on every tube", verb))
}

// refuse records a refusal, and returns the problem. For the server itself, verb is 0.
func (a *API) refuse(c *call, verb access.Verbs, tube, needed string) error {
	if ids := a.opts.Access; ids != nil {
		ids.Denials.Add(c.By, verb, []byte(tube[:min(len(tube), detailMost)]), time.Now(), func() string { return c.client })
	}
	remedy := "use a token of another identity, or change the identity in the file of --access-file"
	switch {
	case a.opts.Access == nil:
		remedy = "start the server with --access-file, which defines identities; as root or the server's user, use a unix socket"
	case !c.proven():
		remedy = "use a token of an identity that has it: the file of --access-file defines identities"
	}
	return wire.NotPermitted.With("", fmt.Sprintf("this needs %s, but %s does not have it", needed, c.who()), remedy)
}

// who describes the client in a problem.
func (c *call) who() string {
	switch name := c.By.Name(); {
	case strings.HasPrefix(name, userPrefix):
		return "the user with " + name
	case name != "":
		return fmt.Sprintf("the identity %q", name)
	}
	return "a request without a token"
}

// proven reports whether the client has proved its identity by a token, a session, or its user.
// Then its browser has not sent the request for a page of another site, except by a session.
func (c *call) proven() bool {
	switch c.By.By() {
	case access.ByToken, access.ByUser:
		return true
	case access.ByServer:
		return c.By.Name() != ""
	}
	return false
}

// mayLook reports whether the client may look at a tube.
func (c *call) mayLook(tube string) bool { return c.By.Verbs([]byte(tube))&access.Look != 0 }

// onlySeen returns a function that reports whether the client may look at a tube; nil: it may look
// at every tube.
func (c *call) onlySeen() func(tube string) bool {
	if c.By.Everywhere(access.Look) {
		return nil
	}
	return c.mayLook
}

// withJob adapts a handler that takes the id of the job in the path. It checks the verb of the
// route on the job's tube. A job keeps its tube, so it does not matter that the handler runs later.
func (a *API) withJob(handler func(c *call, id core.JobID) error) func(c *call) error {
	return func(c *call) error {
		n, err := idOf(c, "a job", "give a whole number from 1 on")
		if err != nil {
			return err
		}
		id := core.JobID(n)
		if verb := c.rt.need.verb; !c.By.Everywhere(verb) {
			row, _, err := a.op.Job(c.Ctx, id, 0)
			if err == nil {
				err = a.mayOn(c, verb, row.Tube)
			}
			if wire.NotFound.Is(err) {
				err = admin.NoJob(id)
			}
			if err != nil {
				return err
			}
		}
		return handler(c, id)
	}
}

// whoami describes the client's rights.
func (a *API) whoami(c *call) error {
	return c.answer(http.StatusOK, wire.Session{
		Name: c.By.Name(), Role: c.By.Role(), Method: c.By.By().String(), Server: c.By.Level().String(),
		Bodies: a.sees(c).String(), Verbs: c.By.Some().Names(), EveryTube: everywhere(c.By).Names(),
	})
}

// everywhere returns the verbs that a client has on every tube.
func everywhere(by *access.Credential) (all access.Verbs) {
	for v := access.Verbs(1); v&access.Every != 0; v <<= 1 {
		if by.Everywhere(v) {
			all |= v
		}
	}
	return all
}

// getIdentities lists the identities of the access file.
func (a *API) getIdentities(c *call) error {
	if a.opts.Access == nil {
		return noAccessFile()
	}
	out := wire.Identities{Identities: []wire.Identity{}, Digest: a.opts.Access.Digest()}
	for _, i := range a.opts.Access.All() {
		out.Identities = append(out.Identities, a.identityValue(i))
	}
	return c.answer(http.StatusOK, out)
}

func noAccessFile() error {
	return wire.NotFound.With("", "the server has no access file, so it has no identities", "start the server with --access-file")
}

func (a *API) identityValue(i *access.Identity) wire.Identity {
	d := a.opts.Access.Describe(i)
	return wire.Identity{Name: d.Name, Role: d.Role, Server: d.Server, Rules: d.Rules, Credentials: d.Credentials}
}

// getIdentity shows an identity, and with the parameter tube explains its verbs there. Each client
// may see its own identity.
func (a *API) getIdentity(c *call) error {
	name := c.R.PathValue("name")
	if a.opts.Access == nil {
		return noAccessFile()
	}
	if name != c.By.Name() && c.By.Level() < access.AdminLevel {
		return a.refuse(c, 0, "", adminServer.String())
	}
	i := a.opts.Access.Identity(name)
	if i == nil {
		return wire.NotFound.With("", fmt.Sprintf("there is no identity %q", name), "GET /api/v1/identities lists them")
	}
	v := a.identityValue(i)
	if tube := c.Query.Get("tube"); c.Query.Has("tube") {
		has, because := i.Explain([]byte(tube))
		v.Tube = &wire.Explained{Name: wire.ShownName(tube), Path: wire.PathName(tube), Verbs: has.Names(), Because: because}
	}
	return c.answer(http.StatusOK, v)
}

// getDenials lists the newest refusals of this server, by all protocols.
func (a *API) getDenials(c *call) error {
	if a.opts.Access == nil {
		return noAccessFile()
	}
	out := wire.Denials{Denials: []wire.Denial{}}
	for _, d := range a.opts.Access.Denials.All() {
		out.Denials = append(out.Denials, wire.Denial{
			Identity: d.Identity, Verb: d.Verb.String(), Tube: wire.ShownName(d.Tube), Count: d.Count, First: d.First.UTC(), Last: d.Last.UTC(), Peer: d.Peer,
		})
	}
	return c.answer(http.StatusOK, out)
}
