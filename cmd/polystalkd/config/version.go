package config

import (
	"strings"

	"polystalk/cmd/internal/program"
)

// Spoken is the release of beanstalkd that this server follows in its protocol and replies.
const Spoken = "1.13"

// SpokenGearman is the release of gearmand that this server follows.
const SpokenGearman = "2.0.0"

// statsVersion is the version key of the stats reply. Clients compare it as a
// number or as dotted numbers to learn which commands they may send, so it
// starts with the release we speak, padded to three parts for strict semantic
// version parsers. What follows "+" is build metadata, which such parsers
// ignore; beanstalkd's own builds between releases use the same sign
// ("1.10+4+gdeadbee"), so clients have met it.
func statsVersion() string { return Spoken + ".0+polystalk." + metadata() }

// metadata returns our version in the form of build metadata, which cannot contain a "+".
func metadata() string { return strings.ReplaceAll(program.Version, "+", ".") }

// gearmanVersion is what Gearman's command version answers, in the same form: its
// monitoring knows gearmand's releases, not beanstalkd's.
func gearmanVersion() string { return SpokenGearman + "+polystalk." + metadata() }

// VersionLine is what -v prints.
func VersionLine() string { return buildLine("beanstalkd " + Spoken) }

// GearmandVersionLine is what --version prints in place of gearmand.
func GearmandVersionLine() string {
	return buildLine("Gearman as gearmand " + SpokenGearman + ", beanstalkd " + Spoken)
}

func buildLine(speaks string) string { return program.Line("polystalkd", "speaks "+speaks) }
