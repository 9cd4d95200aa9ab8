package config

import (
	"net/netip"
	"strings"

	"github.com/spf13/pflag"
)

// tlsConfig has the settings of TLS for clients of both protocols.
type tlsConfig struct {
	Listen, GearmanListen []string // HOST:PORT each

	Cert, Key string // files of the server's certificate; empty: no TLS
	CA, CRL   string // files that say which certificates of clients are valid; empty: clients need none
	Clients   string // ask or require
	Gearmand  bool   // gearmand's --ssl: all Gearman addresses use TLS

	Addresses, GearmanAddresses []Address // Listen and GearmanListen, parsed by Validate

	Balancers        []string       // addresses and networks of load balancers
	BalancerNetworks []netip.Prefix // Balancers, parsed by Validate
}

// The values of --tls-clients.
const (
	clientsAsk     = "ask"
	clientsRequire = "require"
)

func (c *Config) tlsFlags(fs *pflag.FlagSet) {
	k := &c.TLS
	fs.StringArrayVar(&k.Listen, "tls-listen", nil,
		"serve beanstalkd's protocol with TLS on `ADDR`, HOST:PORT, as in 0.0.0.0:11301;\nmay be given several times (default: not at all)")
	fs.StringArrayVar(&k.GearmanListen, "gearman-tls-listen", nil,
		"serve Gearman with TLS on `ADDR`, HOST:PORT, as in 0.0.0.0:4731;\nmay be given several times (default: not at all)")
	fs.StringVar(&k.Cert, "tls-cert", "", "show clients with TLS the certificates in `FILE`; SIGHUP reads all files of TLS\nagain")
	fs.StringVar(&k.Key, "tls-key", "", "read the key of --tls-cert from `FILE`")
	fs.StringVar(&k.CA, "tls-client-ca", "", "check certificates of clients by the authorities in `FILE`")
	fs.StringVar(&k.CRL, "tls-client-crl", "", "refuse certificates of clients that the revocation lists in `FILE` name")
	fs.StringArrayVar(&k.Balancers, "proxy-protocol", nil,
		"require a header of the PROXY protocol, version 2, from the load balancers at `CIDR`,\nan address or a network, on all ports of clients and of HTTP; may be given several\ntimes (default: from none)")
	fs.StringVar(&k.Clients, "tls-clients", clientsAsk, "with --tls-client-ca, `HOW` clients show a certificate: ask or require")
}

// RequiresCertificates reports whether each client with TLS must show a certificate.
func (k *tlsConfig) RequiresCertificates() bool { return k.Clients == clientsRequire }

func (c *Config) validateTLS() {
	k := &c.TLS
	k.Addresses = c.pairs("tls-listen", k.Listen, "0.0.0.0:11301", false)
	k.GearmanAddresses = c.pairs("gearman-tls-listen", k.GearmanListen, "0.0.0.0:4731", false)
	if k.Gearmand {
		k.GearmanAddresses = append(k.GearmanAddresses, c.Gearman.Addresses...)
		c.Gearman.Addresses = nil
	}
	k.BalancerNetworks = c.networks("proxy-protocol", k.Balancers)
	c.refuse(k.Clients != clientsAsk && k.Clients != clientsRequire, "tls-clients", "%q is unknown: give ask or require", k.Clients)
	needs := func(flag, value, other, otherValue string) {
		c.refuse(value != "" && otherValue == "", flag, "it needs %s as well: give it, or leave %s out", c.Spelling(other), c.Spelling(flag))
	}
	needs("tls-listen", strings.Join(k.Listen, " "), "tls-cert", k.Cert)
	needs("gearman-tls-listen", strings.Join(k.GearmanListen, " "), "tls-cert", k.Cert)
	if k.Gearmand {
		needs("ssl", "true", "tls-cert", k.Cert)
	}
	needs("tls-cert", k.Cert, "tls-key", k.Key)
	needs("tls-key", k.Key, "tls-cert", k.Cert)
	needs("tls-client-ca", k.CA, "tls-cert", k.Cert)
	needs("tls-client-crl", k.CRL, "tls-client-ca", k.CA)
	if k.RequiresCertificates() {
		needs("tls-clients", k.Clients, "tls-client-ca", k.CA)
	}
}
