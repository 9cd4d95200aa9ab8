package config

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strings"

	"github.com/spf13/pflag"

	"polystalk/cmd/polystalkd/fault"
	"polystalk/router/access"
)

// httpConfig is what a user can set about what operators are served by HTTP.
type httpConfig struct {
	Listen     []string // HOST:PORT or unix:PATH each; none: HTTP is not spoken
	TokensFile string   // see access.OpenTokens; empty: there are no tokens
	Anonymous  string   // the role of who shows no token; empty: see AnonymousOn
	Hosts      []string // names by which the server may be asked for
	Origins    []string // sites whose pages may change something
	Proxies    []string // addresses and networks of proxies that are believed
	Prefix     string   // path below which a proxy serves the server; empty: none
	Cert, Key  string   // files of TLS; empty: it is not spoken
	Peers      []string // other servers, NAME=URL each
	ConsoleDir string   // where the console's files are; empty: in the program

	HistoryTubes int      // how many tubes have a history; 0: there is none
	MetricsTubes int      // how many tubes /metrics shows
	MetricsMatch []string // patterns of the names of those that come first

	Bodies string // how much of the bodies of jobs operators see; see access.ParseBodies

	Addresses     []Address      // Listen, parsed by Validate
	ProxyNetworks []netip.Prefix // Proxies, parsed by Validate
}

func (c *Config) httpFlags(fs *pflag.FlagSet) {
	h := &c.HTTP
	fs.StringArrayVar(&h.Listen, "http", nil,
		"serve probes, metrics and the operators' API by HTTP on `ADDR`, HOST:PORT\nor unix:PATH, as in 127.0.0.1:11380; may be given several times (default off)")
	fs.StringVar(&h.TokensFile, "http-tokens-file", "", "take the tokens of operators from `FILE`, a line for each: its\nname, a role (read, operate or admin) and sha256:DIGEST; SIGHUP reads\nwhat stands in it again")
	fs.StringVar(&h.Anonymous, "http-anonymous", "", "let who shows no token do what `ROLE` may: none, read or operate (default operate\non loopback addresses and unix sockets if there are no tokens, else none)")
	fs.StringArrayVar(&h.Hosts, "http-host", nil, "serve requests for the server as `NAME` by HTTP without a token, besides\nlocalhost and addresses; may be given several times")
	fs.StringArrayVar(&h.Origins, "http-origin", nil, "let pages of the site `URL` change something by HTTP, as in\nhttps://ops.example.com; may be given several times")
	fs.StringArrayVar(&h.Proxies, "http-trusted-proxy", nil, "believe X-Forwarded-For and X-Forwarded-Proto of the proxy at `CIDR`, an\naddress or a network; may be given several times")
	fs.StringVar(&h.Prefix, "http-prefix", "", "remove `PATH` from the path of each HTTP request that begins with it, behind a\nproxy that serves the server below PATH and passes it on, as in /queue")
	fs.IntVar(&h.HistoryTubes, "http-history-tubes", 100, "keep the history of a day of the server and of `N` tubes in memory, the busiest,\n105 kB each; 0: none, up to 1000")
	fs.IntVar(&h.MetricsTubes, "http-metrics-tubes", 200, "show `N` tubes in /metrics, the busiest; 0 to 10000")
	fs.StringArrayVar(&h.MetricsMatch, "http-metrics-match", nil, "show tubes whose names match `GLOB` before others in /metrics; may be given\nseveral times")
	fs.StringVar(&h.Bodies, "http-bodies", "full", "show operators `PART` of the bodies of jobs: full, preview (how they begin) or\nnone; a token with +bodies shows all of them")
	fs.StringArrayVar(&h.Peers, "http-peer", nil, "have the console link to another server's, as `NAME=URL`, as in\nmail=https://ops.example.com/mail/; may be given several times")
	fs.StringVar(&h.ConsoleDir, "http-console-dir", "", "serve the files of the console from `DIR` as they are there, for who works\non it, as in /src/polystalk/router/http/console")
	fs.StringVar(&h.Cert, "http-tls-cert", "", "speak TLS instead of plain HTTP, with the certificates in `FILE`")
	fs.StringVar(&h.Key, "http-tls-key", "", "take the key of --http-tls-cert from `FILE`")
}

// httpLists are the flags of HTTP whose variables hold several values.
func httpLists(flag string) bool {
	switch flag {
	case "http", "http-host", "http-origin", "http-trusted-proxy", "http-metrics-match", "http-peer":
		return true
	}
	return false
}

// httpFlagNames are all of them, for the command line in place of gearmand.
var httpFlagNames = []string{"http", "http-tokens-file", "http-anonymous", "http-host", "http-origin", "http-trusted-proxy", "http-prefix", "http-history-tubes", "http-metrics-tubes", "http-metrics-match", "http-bodies", "http-peer", "http-console-dir", "http-tls-cert", "http-tls-key"}

// UnservedHTTP is where options of HTTP come from that were set by who configures the server,
// for the case that it is not served. Credentials are there whether they are of use or not.
func (c *Config) UnservedHTTP() (origins []string) {
	for _, name := range httpFlagNames {
		if name != "http" && c.IsSet(name) && !strings.HasPrefix(c.origins[name], "credential ") {
			origins = append(origins, c.origins[name])
		}
	}
	return origins
}

// AnonymousOn is what who shows no token may do on a listener. Without tokens that is what
// anybody may do there by the protocols, if it is this machine's alone. With tokens it is
// nothing unless it is said: what comes from this machine may come through a proxy from
// anywhere.
func (h *httpConfig) AnonymousOn(l net.Addr) (access.Role, error) {
	if h.Anonymous != "" {
		return access.ParseRole(h.Anonymous)
	}
	if h.TokensFile == "" && isLocal(l) {
		return access.Operate, nil
	}
	return access.Nobody, nil
}

// isLocal reports whether only this machine can connect to an address.
func isLocal(l net.Addr) bool {
	tcp, ok := l.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}

// CheckExposed refuses an address that others than this machine can connect to, if nobody
// has said who they may be: by mistake everybody could delete jobs, or nobody could do
// anything.
func (c *Config) CheckExposed(l net.Addr, from, given string) error {
	h := &c.HTTP
	if isLocal(l) || h.TokensFile != "" || h.Anonymous != "" {
		return nil
	}
	return fault.New(fault.Usage, "%s: %q can be reached from other machines, and nothing says who may do what: give --http-tokens-file, or --http-anonymous with what everybody may do (none, read or operate), or an address of this machine alone, as in 127.0.0.1:11380", from, given)
}

func (c *Config) validateHTTP() {
	h := &c.HTTP
	var err error
	h.Addresses, err = c.pairs("http", h.Listen, "127.0.0.1:11380", true)
	c.found(err)
	for i := range h.Addresses {
		a := &h.Addresses[i]
		if ip, err := netip.ParseAddr(a.Host); a.Path == "" && (a.Host == "" || err == nil) {
			c.found(c.CheckExposed(&net.TCPAddr{IP: net.IP(ip.AsSlice())}, a.From, a.Given))
		}
	}
	switch h.Anonymous {
	case "", "none", "read", "operate":
	default:
		c.found(fault.New(fault.Usage, "%s: unknown role %q: give none, read or operate", c.Origin("http-anonymous"), h.Anonymous))
	}
	for _, name := range h.Hosts {
		if name == "" || strings.ContainsAny(name, "/:* \t") {
			c.found(fault.New(fault.Usage, "%s: %q is no host name: give the name alone, as in ops.example.com", c.Origin("http-host"), name))
		}
	}
	for _, origin := range h.Origins {
		if err := http.NewCrossOriginProtection().AddTrustedOrigin(origin); err != nil {
			c.found(fault.New(fault.Usage, "%s: %q is no origin: give scheme and host, as in https://ops.example.com", c.Origin("http-origin"), origin))
		}
	}
	for _, peer := range h.Peers {
		name, address, _ := strings.Cut(peer, "=")
		if u, err := url.Parse(address); name == "" || err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			c.found(fault.New(fault.Usage, "%s: %q does not say which server is where: give its name and the address of its console, as in mail=https://ops.example.com/mail/", c.Origin("http-peer"), peer))
		}
	}
	if p := h.Prefix; p != "" && (p[0] != '/' || p == "/" || path.Clean(p) != p || strings.ContainsAny(p, "%?# ")) {
		c.found(fault.New(fault.Usage, "%s: %q is not the beginning of a path: give one without / at its end, as in /queue", c.Origin("http-prefix"), p))
	}
	h.ProxyNetworks = nil
	for _, given := range h.Proxies {
		p, err := netip.ParsePrefix(given)
		if ip, ipErr := netip.ParseAddr(given); err != nil && ipErr == nil {
			p, err = ip.Prefix(ip.BitLen())
		}
		if err != nil {
			c.found(fault.New(fault.Usage, "%s: %q is no address and no network: give one, as in 10.0.0.5 or 10.0.0.0/24", c.Origin("http-trusted-proxy"), given))
		}
		h.ProxyNetworks = append(h.ProxyNetworks, p)
	}
	if h.HistoryTubes < 0 || h.HistoryTubes > historyTubesMost {
		c.found(fault.New(fault.Usage, "%s: the history of %d tubes cannot be kept: give 0 to %d, and let Prometheus read /metrics/tubes for more", c.Origin("http-history-tubes"), h.HistoryTubes, historyTubesMost))
	}
	if h.MetricsTubes < 0 || h.MetricsTubes > metricsTubesMost {
		c.found(fault.New(fault.Usage, "%s: %d tubes cannot be shown: give 0 to %d, and read /metrics/tubes for more", c.Origin("http-metrics-tubes"), h.MetricsTubes, metricsTubesMost))
	}
	for _, pattern := range h.MetricsMatch {
		if _, err := path.Match(pattern, ""); err != nil {
			c.found(fault.New(fault.Usage, "%s: the pattern %q cannot be read: give one as in mail-* or [a-m]*", c.Origin("http-metrics-match"), pattern))
		}
	}
	if _, err := access.ParseBodies(h.Bodies); err != nil {
		c.found(fault.New(fault.Usage, "%s: %v", c.Origin("http-bodies"), err))
	}
	if (h.Cert == "") != (h.Key == "") {
		have, want := "http-tls-cert", "http-tls-key"
		if h.Cert == "" {
			have, want = want, have
		}
		c.found(fault.New(fault.Usage, "%s: it is of no use without --%s: give both files, or neither", c.Origin(have), want))
	}
}

// historyTubesMost is how many tubes may have a history: they take 105 MB then.
const historyTubesMost = 1000

// metricsTubesMost is how many tubes may be shown in /metrics: each has 49 series, of which
// the library makes objects.
const metricsTubesMost = 10_000

// Scheme is that of the URLs.
func (h *httpConfig) Scheme() string {
	if h.Cert != "" {
		return "https"
	}
	return "http"
}
