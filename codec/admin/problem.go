package admin

import "errors"

// A Problem describes why a request failed, as application/problem+json.
// Source: RFC 9457, section 3.
type Problem struct {
	Type      string `json:"type"` // path of the page about the Kind, on the server
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail,omitempty"`
	Remedy    string `json:"remedy"`          // what to do
	Field     string `json:"field,omitempty"` // of the request
	RequestID string `json:"request_id,omitempty"`
}

// Error implements error.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return p.Title + ": " + p.Remedy
	}
	return p.Title + ": " + p.Detail + ": " + p.Remedy
}

// ProblemPath is the path of the pages about kinds of problems; a Kind's slug follows.
const ProblemPath = "/problems/"

// A Kind is a kind of problem.
type Kind struct {
	Slug    string
	Status  int
	Title   string
	Explain string // text of the page about it
	Remedy  string // the default remedy
}

// Kinds has all kinds by slug.
var Kinds = make(map[string]*Kind)

func kind(slug string, status int, title, explain, remedy string) *Kind {
	k := &Kind{slug, status, title, explain, remedy}
	Kinds[slug] = k
	return k
}

// The kinds of problems.
var (
	BadRequest = kind("bad-request", 400, "The request cannot be understood",
		"The path or the query holds something that the server cannot read, such as an id that is not a number or an unknown parameter. Or the body is not one JSON object: it ends early, has a member twice, begins with a byte order mark, or is not UTF-8. Use body_base64 for a job body that is not UTF-8.",
		"correct the named parameter or member")
	NoToken = kind("no-token", 401, "A token is needed",
		"The request has no token, or an unknown one. The file of --access-file has the digests of the tokens; a token that was removed there is invalid. A token from another machine needs https, unless the file says plaintext-tokens = true.",
		"send a header Authorization: Bearer TOKEN")
	NotPermitted = kind("not-permitted", 403, "The client may not do this",
		"The client's identity does not have the named verb on the named tube, or the named level of the server. The file of --access-file gives them; without it, --http-anonymous does. A tube that the identity may not look at is not found.",
		"use a token of an identity that has it")
	CrossOrigin = kind("cross-origin", 403, "The request comes from another site",
		"The browser reports that a page of another origin has sent the request. Such a page could use the permissions of its visitor.",
		"open the console of this server, or allow the other origin with --http-origin")
	NotFound = kind("not-found", 404, "Not found",
		"The tube, the job or the path does not exist. A tube exists while it has jobs, or while a client uses or watches it; a job exists until it is deleted.",
		"look it up again")
	MethodNotAllowed = kind("method-not-allowed", 405, "The path does not have this method",
		"The header Allow of the answer lists the methods of the path.",
		"use one of the methods in the header Allow")
	JobReserved = kind("job-reserved", 409, "A worker has the job",
		"A reserved job belongs to its worker until the worker deletes, releases or buries it, disconnects, or its time to run ends.",
		"wait until the worker is done, then try again")
	JobMoved = kind("job-moved", 409, "The job is in another state",
		"The job's state does not allow the change: only buried and delayed jobs can be kicked, only reserved jobs released, and only ready and delayed jobs have a delay. A job that is being moved to another tube cannot be changed. A job of Gearman has no time to run, and its body cannot change while a client waits for it.",
		"read the job again")
	Awaited = kind("awaited", 409, "A client waits for the job",
		"A Gearman client waits for the result of the job, by the job's id. A move would change the id.",
		"copy the job, or move it when no client waits for it")
	CursorExpired = kind("cursor-expired", 410, "The cursor has expired",
		"A cursor in a list of jobs is valid in one process only, and the server has restarted since.",
		"begin again without after")
	Changed = kind("changed", 412, "The job or the set of policies has changed",
		"The header If-Match of the request has an older version of the job or of the set of policies, which has changed since. The request has changed nothing.",
		"read the job again, and send the request with its new ETag")
	MoreThanExpected = kind("more-than-expected", 409, "There are more jobs than expected",
		"The request selects more jobs than its limit expect_at_most. Nothing was changed.",
		"count the jobs again with dry_run, or raise expect_at_most")
	Cancelled = kind("cancelled", 409, "The operation was cancelled",
		"An operator has cancelled it, or the server stops. Changes that were already made stay.",
		"begin it again with the same selection and as_of, to continue with the remaining jobs")
	KeyInUse = kind("key-in-use", 422, "The Idempotency-Key was used for another request",
		"For ten minutes, a key belongs to one request, with its path and its body.",
		"use a new key for each new request")
	TooManyKeys = kind("too-many-keys", 429, "Too many Idempotency-Keys are in use",
		"The server keeps each key for ten minutes in bounded memory, and refuses new keys when the memory is full. One caller may use at most as much as remains free. Nothing was changed.",
		"send the request without a key, or retry after the seconds in the header Retry-After")
	TooLarge = kind("too-large", 413, "The body is too large",
		"The limit is 4 kB for a login, --max-job-size for a job, and 1 MB for other JSON.",
		"send a smaller body, or raise --max-job-size")
	NotJSON = kind("not-json", 415, "The body is not JSON",
		"Changes need a JSON body with its Content-Type. A form on another site cannot send this, so it cannot make changes.",
		"send JSON with a header Content-Type: application/json")
	WrongHost = kind("wrong-host", 421, "The host name is not allowed",
		"The header Host has a name that is not allowed. This prevents DNS rebinding: a site could point its own name to this server's address, and a browser would let the site read the answers.",
		"use the server's address or localhost, send a token, or allow the name with --http-host")
	Invalid = kind("invalid", 422, "A value cannot be used",
		"The JSON is well formed, but a member is unknown, has the wrong type, or is out of range.",
		"correct the named member")
	Busy = kind("busy", 429, "The server is busy with another large request",
		"Requests that need much time or memory run one at a time, so that they do not slow down clients of the queue.",
		"try again after the seconds in the header Retry-After")
	Throttled = kind("throttled", 429, "The identity puts too fast",
		"The access file limits the puts per second of each identity. Nothing was changed.",
		"wait for the seconds in the header Retry-After, or raise puts-per-second in the access file")
	Starting = kind("starting", 503, "The server is reading its journal",
		"The server serves jobs once it has read the whole journal; /readyz shows the progress.",
		"wait until /readyz answers 200")
	Following = kind("following", 503, "Another server of the cluster has the jobs",
		"The leader of the cluster serves the jobs, and the other servers forward clients and requests to it. Now there is no leader, or it cannot be reached. Nothing was changed.",
		"try again: there will be a leader soon; GET /api/v1/cluster names it")
	NotChanged = kind("not-changed", 409, "The cluster cannot be changed like this",
		"The change does not fit the members of the cluster, or the previous change is still in progress.",
		"check the state of the servers: GET /api/v1/cluster")
	MembersTooOld = kind("members-too-old", 409, "Not every server of the cluster reads policies",
		"A server of an earlier release cannot read a journal with policies. So policies can be set once every server has said that it reads them. Nothing was changed.",
		"bring all servers to the same release, then try again")
	Stopping = kind("stopping", 503, "The server is stopping",
		"The server was told to stop, or its journal has failed. It accepts no more requests.",
		"use another server, or try again after the restart")
	Draining = kind("draining", 503, "The server accepts no new jobs",
		"The server is draining: workers finish the existing jobs, and new jobs must go to another server.",
		"put the job on another server, or end the drain: DELETE /api/v1/drain")
	Uncertain = kind("uncertain", 503, "The change may or may not be durable",
		"The change was made, but was not confirmed as durable in time. A crash may undo it.",
		"check whether the change was made before you try again")
	DiskFull = kind("disk-full", 507, "The disk is full",
		"The journal has no space for the change. Nothing was changed. Jobs can still be deleted.",
		"delete jobs, or free space on the disk of --binlog-dir")
	QuotaReached = kind("quota-reached", 507, "The identity's tubes are full",
		"The access file limits the jobs and bytes in the tubes of an identity. Nothing was changed. Jobs can still be deleted.",
		"delete jobs, let workers catch up, or raise jobs and bytes in the access file")
	TubeFull = kind("tube-full", 507, "The tube is full",
		"The tube's policy limits its jobs or bytes. Nothing was changed.",
		"delete jobs, let workers catch up, or raise max_jobs and max_bytes of the policy")
	OutOfMemory = kind("out-of-memory", 507, "There is no memory for the job",
		"The system gives the server no more memory. Nothing was changed.",
		"delete jobs, or give the server more memory")
	BadConfiguration = kind("bad-configuration", 422, "The configuration cannot be used",
		"The configuration has an error. Nothing was changed: the server keeps its previous configuration.",
		"correct the named settings, then reload again")
	Failed = kind("internal", 500, "Internal error",
		"This is a bug in the server. The log has the request's id and the details.",
		"report it, with the lines of the log")
)

// Is reports whether err is a problem of the kind.
func (k *Kind) Is(err error) bool {
	p, ok := errors.AsType[*Problem](err)
	return ok && p.Type == ProblemPath+k.Slug
}

// Problem returns a problem of the kind with the kind's remedy.
func (k *Kind) Problem(detail string) *Problem {
	return &Problem{Type: ProblemPath + k.Slug, Title: k.Title, Status: k.Status, Detail: detail, Remedy: k.Remedy}
}

// With returns a problem about a field of the request, with its own remedy.
func (k *Kind) With(field, detail, remedy string) *Problem {
	p := k.Problem(detail)
	p.Field, p.Remedy = field, remedy
	return p
}
