package config

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"polystalk/cmd/polystalkd/fault"
	"polystalk/router/access"
)

// httpConfig has the settings of HTTP.
type httpConfig struct {
	Listen     []string // HOST:PORT or unix:PATH each; none: no HTTP
	Anonymous  string   // the role of requests without a token; empty: see AnonymousOn
	Hosts      []string // names accepted in the Host header
	Origins    []string // sites with pages that may make changes
	Proxies    []string // addresses and networks of trusted proxies
	Prefix     string   // path below which a proxy serves the server; empty: none
	Cert, Key  string   // files of TLS; empty: no TLS
	Peers      []string // other servers, NAME=URL each
	ConsoleDir string   // folder of the console's files; empty: the program's own

	HistoryTubes int      // number of tubes with a history; 0: none
	MetricsTubes int      // number of tubes in /metrics
	MetricsMatch []string // patterns of tubes that come first in /metrics

	Bodies string // the part of bodies that operators see; see access.ParseBodies

	Addresses     []Address      // Listen, parsed by Validate
	ProxyNetworks []netip.Prefix // Proxies, parsed by Validate
}

func (c *Config) httpFlags(fs *pflag.FlagSet) {
	h := &c.HTTP
	fs.StringArrayVar(&h.Listen, "http", nil,
		"serve probes, metrics and the operators' API by HTTP on `ADDR`, HOST:PORT\nor unix:PATH, as in 127.0.0.1:11380; may be given several times (default off)")
	add(fs, "http-tokens-file", "", "", "string", func(string) error { return &badValue{remedy: tokensRemoved} }, func() string { return "" }).Hidden = true
	fs.StringVar(&h.Anonymous, "http-anonymous", "", "give requests without a token the role `ROLE`: none, read or operate (default\noperate on loopback addresses and unix sockets, else none); not with --access-file")
	fs.StringArrayVar(&h.Hosts, "http-host", nil, "accept requests without a token for the host name `NAME`, in addition to localhost\nand addresses; may be given several times")
	fs.StringArrayVar(&h.Origins, "http-origin", nil, "allow pages of the site `URL` to make changes by HTTP, as in\nhttps://ops.example.com; may be given several times")
	fs.StringArrayVar(&h.Proxies, "http-trusted-proxy", nil, "trust X-Forwarded-For and X-Forwarded-Proto of the proxy at `CIDR`, an\naddress or a network; may be given several times")
	fs.StringVar(&h.Prefix, "http-prefix", "", "remove `PATH` from the path of each HTTP request that begins with it, behind a\nproxy that serves the server below PATH and passes it on, as in /queue")
	fs.IntVar(&h.HistoryTubes, "http-history-tubes", 100, "keep a day of history of the server and of the `N` busiest tubes in memory,\n105 kB each, up to 1000; 0: none")
	fs.IntVar(&h.MetricsTubes, "http-metrics-tubes", 200, "show the `N` busiest tubes in /metrics; 0 to 10000")
	fs.StringArrayVar(&h.MetricsMatch, "http-metrics-match", nil, "show tubes with names that match `GLOB` first in /metrics; may be given\nseveral times")
	fs.StringVar(&h.Bodies, "http-bodies", "full", "show operators `PART` of job bodies: full, preview (the beginning) or none;\nan identity of --access-file may see another part")
	fs.StringArrayVar(&h.Peers, "http-peer", nil, "link from the console to another server's console, `NAME=URL`, as in\nmail=https://ops.example.com/mail/; may be given several times")
	fs.StringVar(&h.ConsoleDir, "http-console-dir", "", "serve the console's files from `DIR`, to develop the console, as in\n/src/polystalk/router/http/console")
	fs.StringVar(&h.Cert, "http-tls-cert", "", "use TLS instead of plain HTTP, with the certificates in `FILE`")
	fs.StringVar(&h.Key, "http-tls-key", "", "read the key of --http-tls-cert from `FILE`")
}

// UnservedHTTP returns the origins of HTTP options that have no effect when HTTP is not
// served. Credentials of the service manager are not among them.
func (c *Config) UnservedHTTP() (origins []string) {
	c.keys.each(func(f *pflag.Flag) {
		if o := c.origins[f.Name]; strings.HasPrefix(f.Name, "http-") && o != "" && !strings.HasPrefix(o, "credential ") {
			origins = append(origins, o)
		}
	})
	return origins
}

// tokensRemoved is the remedy for a file of tokens.
const tokensRemoved = "it was removed: polystalk access convert FILE prints the access file with the same tokens, for --access-file"

// AnonymousOn returns the role of requests without a token on a listener; empty: the access file
// has an identity for them. By default, a listener that only this machine can reach gives the same
// rights as the protocols.
func (c *Config) AnonymousOn(l net.Addr) string {
	switch {
	case c.AccessFile != "" || c.HTTP.Anonymous != "":
		return c.HTTP.Anonymous
	case isLocal(l):
		return "operate"
	}
	return "none"
}

// isLocal reports whether only this machine can connect to an address.
func isLocal(l net.Addr) bool {
	tcp, ok := l.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}

// CheckExposed refuses an address that other machines can reach if neither an access file nor
// anonymous access is configured. Otherwise any client could delete jobs by mistake.
func (c *Config) CheckExposed(l net.Addr, from, given string) error {
	if isLocal(l) || c.AccessFile != "" || c.HTTP.Anonymous != "" {
		return nil
	}
	return fault.New(fault.Usage, "%s: %q can be reached from other machines, and access is not configured: give --access-file, or --http-anonymous with a role for every client (none, read or operate), or an address that only this machine can reach, as in 127.0.0.1:11380", from, given)
}

func (c *Config) validateHTTP() {
	h := &c.HTTP
	h.Addresses = c.pairs("http", h.Listen, "127.0.0.1:11380", true)
	for i := range h.Addresses {
		a := &h.Addresses[i]
		if ip, err := netip.ParseAddr(a.Host); a.Path == "" && (a.Host == "" || err == nil) {
			c.found(c.CheckExposed(&net.TCPAddr{IP: net.IP(ip.AsSlice())}, a.From, a.Given))
		}
	}
	c.refuse(c.AccessFile != "" && h.Anonymous != "", "http-anonymous", "the access file says what clients without a token may do: leave this out, and write [identity.default] in the file of --access-file")
	c.refuse(!slices.Contains([]string{"", "none", "read", "operate"}, h.Anonymous), "http-anonymous", "unknown role %q: give none, read or operate", h.Anonymous)
	for _, name := range h.Hosts {
		c.refuse(name == "" || strings.ContainsAny(name, "/:* \t"), "http-host", "%q is not a host name: give the name alone, as in ops.example.com", name)
	}
	for _, origin := range h.Origins {
		err := http.NewCrossOriginProtection().AddTrustedOrigin(origin)
		c.refuse(err != nil, "http-origin", "%q is not an origin: give scheme and host, as in https://ops.example.com", origin)
	}
	for _, peer := range h.Peers {
		name, address, _ := strings.Cut(peer, "=")
		u, err := url.Parse(address)
		c.refuse(name == "" || err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https", "http-peer",
			"%q is not NAME=URL: give a server's name and the address of its console, as in mail=https://ops.example.com/mail/", peer)
	}
	p := h.Prefix
	c.refuse(p != "" && (p[0] != '/' || p == "/" || path.Clean(p) != p || strings.ContainsAny(p, "%?# ")), "http-prefix",
		"%q is not the beginning of a path: give one without / at its end, as in /queue", p)
	h.ProxyNetworks = c.networks("http-trusted-proxy", h.Proxies)
	c.refuse(h.HistoryTubes < 0 || h.HistoryTubes > historyTubesMost, "http-history-tubes",
		"the history of %d tubes cannot be kept: give 0 to %d, and let Prometheus read /metrics/tubes for more", h.HistoryTubes, historyTubesMost)
	c.refuse(h.MetricsTubes < 0 || h.MetricsTubes > metricsTubesMost, "http-metrics-tubes",
		"%d tubes cannot be shown: give 0 to %d, and read /metrics/tubes for more", h.MetricsTubes, metricsTubesMost)
	for _, pattern := range h.MetricsMatch {
		_, err := path.Match(pattern, "")
		c.refuse(err != nil, "http-metrics-match", "the pattern %q cannot be read: give one as in mail-* or [a-m]*", pattern)
	}
	_, err := access.ParseBodies(h.Bodies)
	c.refuse(err != nil, "http-bodies", "%v", err)
	const needsBoth = "it needs --%s as well: give both files, or neither"
	c.refuse(h.Cert != "" && h.Key == "", "http-tls-cert", needsBoth, "http-tls-key")
	c.refuse(h.Cert == "" && h.Key != "", "http-tls-key", needsBoth, "http-tls-cert")
}

// historyTubesMost is the most tubes with a history. They take 105 MB.
const historyTubesMost = 1000

// metricsTubesMost is the most tubes in /metrics. Each has 49 series, and the Prometheus library
// allocates an object for each series.
const metricsTubesMost = 10_000

// Scheme returns the scheme of the server's URLs.
func (h *httpConfig) Scheme() string {
	if h.Cert != "" {
		return "https"
	}
	return "http"
}

// networks parses the values of an option.
func (c *Config) networks(option string, texts []string) (list []netip.Prefix) {
	for _, given := range texts {
		p, err := netip.ParsePrefix(given)
		if ip, ipErr := netip.ParseAddr(given); err != nil && ipErr == nil {
			p, err = ip.Prefix(ip.BitLen())
		}
		c.refuse(err != nil, option, "%q is neither an address nor a network: give one, as in 10.0.0.5 or 10.0.0.0/24", given)
		list = append(list, p)
	}
	return list
}
