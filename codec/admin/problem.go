package admin

// A Problem says why a request was not served, as application/problem+json.
// Source: RFC 9457, section 3.
type Problem struct {
	Type      string `json:"type"` // of its Kind, a path on the server that explains it
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail,omitempty"`
	Remedy    string `json:"remedy"`          // what to do
	Field     string `json:"field,omitempty"` // of the request, that is meant
	RequestID string `json:"request_id,omitempty"`
}

// Error implements error.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return p.Title + ": " + p.Remedy
	}
	return p.Title + ": " + p.Detail + ": " + p.Remedy
}

// ProblemPath is where the server explains its kinds of problems; a Kind's slug follows.
const ProblemPath = "/problems/"

// A Kind is one of the problems that there are.
type Kind struct {
	Slug    string
	Status  int
	Title   string
	Explain string // for the page about it
	Remedy  string // where nothing better is known
}

// The kinds of problems.
var (
	BadRequest = &Kind{"bad-request", 400, "The request cannot be understood",
		"A path or a query holds something that the server cannot read: an id that is no number, an unknown parameter. Or the body is not one JSON object: it ends too early, has a member twice, begins with a byte order mark, or has bytes that are no UTF-8. Use body_base64 for a job's body of such bytes.",
		"correct the parameter or the member that is named"}
	NoToken = &Kind{"no-token", 401, "A token is needed",
		"The request shows no token, or one that nobody has. Tokens stand in the file of --http-tokens-file; one that was taken out there is of no use any more.",
		"send a header Authorization: Bearer TOKEN"}
	ReadOnly = &Kind{"read-only", 403, "The token may not do that",
		"Each token has a role: read, operate or admin. Each may do what the ones before it may.",
		"use a token with the role that is named"}
	CrossOrigin = &Kind{"cross-origin", 403, "The request comes from another site",
		"A browser says that a page of another origin has sent the request. Such a page could act in the name of who looks at it.",
		"open the page from this server itself, or allow the other origin with --http-origin"}
	NotFound = &Kind{"not-found", 404, "There is nothing of that name",
		"The tube, the job or the path does not exist. A tube exists as long as it has jobs or somebody uses or watches it; a job until it is deleted.",
		"look it up again"}
	MethodNotAllowed = &Kind{"method-not-allowed", 405, "The path knows no such method",
		"The header Allow of the answer lists the methods that the path knows.",
		"use one of the methods in the header Allow"}
	JobReserved = &Kind{"job-reserved", 409, "A worker has the job",
		"A reserved job belongs to the worker that has it, until it deletes, releases or buries it, is gone, or its time to run is over.",
		"wait until the worker is done, then try again"}
	JobMoved = &Kind{"job-moved", 409, "The job is in another state",
		"What was asked for does not go with the job as it is by now: only buried and delayed jobs can be kicked, only reserved ones released, and only ready and delayed ones have a delay. Nothing is done to one that is being moved to another tube. A job that was submitted has no time to run, and its body stays while somebody waits for it.",
		"look at the job again"}
	Awaited = &Kind{"awaited", 409, "Somebody waits for the job",
		"A client has submitted the job and waits for what comes of it, under its id. A job that is moved has another id.",
		"copy the job, or move it when nobody waits any more"}
	CursorExpired = &Kind{"cursor-expired", 410, "The cursor is of no use any more",
		"A place in a list of jobs is that of one process: the server was started anew since.",
		"begin again without after"}
	Changed = &Kind{"changed", 412, "The job is not what it was",
		"The request says by If-Match what the job was when it was looked at, and something about it has changed since. Nothing was changed by the request.",
		"look at the job again, and send the request with its new tag"}
	MoreThanExpected = &Kind{"more-than-expected", 409, "There are more jobs than expected",
		"The request says how many jobs are expected at most, and more are selected. Nothing was changed.",
		"count again with dry_run, or expect more"}
	Cancelled = &Kind{"cancelled", 409, "The operation was cancelled",
		"Somebody has cancelled it, or the server ends. What was done before that stays done.",
		"begin it again with the same selection and as_of: it goes on with what is left"}
	KeyInUse = &Kind{"key-in-use", 422, "The Idempotency-Key was used for another request",
		"A key names one request, with its path and its body, for ten minutes.",
		"use a new key for each new request"}
	TooManyKeys = &Kind{"too-many-keys", 429, "Too many Idempotency-Keys are in use",
		"The server keeps each key for ten minutes, in a bounded memory, and refuses new keys when that is full. One caller may use as much of it as is free. Nothing was done.",
		"send the request without a key, or again after the seconds in the header Retry-After"}
	TooLarge = &Kind{"too-large", 413, "The body is too large",
		"A login may have 4 kB, another body of JSON 1 MB, and a job as much as --max-job-size says.",
		"send less, or raise --max-job-size"}
	NotJSON = &Kind{"not-json", 415, "The body is not JSON",
		"What changes something takes JSON, and says so: no form of another site can do that unasked.",
		"send JSON with a header Content-Type: application/json"}
	WrongHost = &Kind{"wrong-host", 421, "The server is asked for by a name that is not its own",
		"The header Host holds a name that was not allowed. A site could give its own name this server's address, and have a browser talk to it.",
		"ask for it by its address or as localhost, show a token, or allow the name with --http-host"}
	Invalid = &Kind{"invalid", 422, "A value cannot be used",
		"The JSON is well formed, but a member is unknown, is of another type, or is out of its range.",
		"correct the member that is named"}
	Busy = &Kind{"busy", 429, "The server does something large already",
		"Requests that take much time, or much memory, are served one at a time, so that the clients of the queue do not feel them.",
		"try again after the seconds in the header Retry-After"}
	Starting = &Kind{"starting", 503, "The server reads its journal",
		"Jobs are served once all of the journal was read; /readyz says how far that is.",
		"wait until /readyz answers 200"}
	Following = &Kind{"following", 503, "Another server of the cluster has the jobs",
		"The servers of a cluster keep the same jobs, and the one that leads them serves. Clients may come to any, which hands them and their requests on to it; nobody leads now, or it cannot be reached. Nothing was done.",
		"try again: another server leads soon; GET /api/v1/cluster names it"}
	NotChanged = &Kind{"not-changed", 409, "The cluster cannot be changed so",
		"A change of the cluster has to fit to its members as they are, and one has to be done before the next.",
		"look at the servers: GET /api/v1/cluster"}
	Stopping = &Kind{"stopping", 503, "The server ends",
		"It was told to end, or its journal has failed, and takes nothing more.",
		"ask the server that comes in its place"}
	Draining = &Kind{"draining", 503, "The server takes no new jobs",
		"It drains: workers finish what there is, and producers are to go elsewhere.",
		"put the job on another server, or end the drain: DELETE /api/v1/drain"}
	Uncertain = &Kind{"uncertain", 503, "It is not known whether the change is kept",
		"The change was made, but the disk did not confirm it in time. After a crash it may be there or not.",
		"look at what has become of it before you try again"}
	DiskFull = &Kind{"disk-full", 507, "The disk is full",
		"There is no space for the change in the journal. Nothing was changed; deleting goes on.",
		"delete jobs, or make space on the disk of --binlog-dir"}
	OutOfMemory = &Kind{"out-of-memory", 507, "There is no memory for the job",
		"The machine gives the server no more memory. Nothing was changed.",
		"delete jobs, or give the server more memory"}
	BadConfiguration = &Kind{"bad-configuration", 422, "The configuration cannot be used",
		"It was read again, and something in it is wrong. Nothing was changed: the server goes on with what it had.",
		"correct what is named, then reload again"}
	Failed = &Kind{"internal", 500, "The server has made a mistake",
		"This should not happen; the log of the server has the request's id and where it happened.",
		"report it, with the lines of the log"}
)

// Kinds are all of them, by their slugs.
var Kinds = func() map[string]*Kind {
	all := make(map[string]*Kind)
	for _, k := range []*Kind{
		BadRequest, NoToken, ReadOnly, CrossOrigin, NotFound, MethodNotAllowed, JobReserved, JobMoved, Awaited, CursorExpired, Changed, MoreThanExpected, Cancelled,
		KeyInUse, TooManyKeys, TooLarge, NotJSON, WrongHost, Invalid, Busy, Starting, Following, NotChanged, Stopping, Draining, Uncertain, DiskFull, OutOfMemory, BadConfiguration, Failed,
	} {
		all[k.Slug] = k
	}
	return all
}()

// Problem is one of the kind; the detail says what it is about. It has the kind's remedy.
func (k *Kind) Problem(detail string) *Problem {
	return &Problem{Type: ProblemPath + k.Slug, Title: k.Title, Status: k.Status, Detail: detail, Remedy: k.Remedy}
}

// With is Problem about a field of the request, with a remedy of its own.
func (k *Kind) With(field, detail, remedy string) *Problem {
	p := k.Problem(detail)
	p.Field, p.Remedy = field, remedy
	return p
}
