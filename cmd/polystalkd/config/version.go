package config

import (
	"strings"

	"polystalk/cmd/internal/program"
)

// Spoken is the beanstalkd release that this server follows in its protocol and replies.
const Spoken = "1.13"

// SpokenGearman is the gearmand release that this server follows.
const SpokenGearman = "2.0.0"

// statsVersion returns the version key of the stats reply. Clients compare it as a number or as
// dotted numbers to learn which commands they may send, so it starts with the release we follow,
// padded to three parts for strict semantic version parsers. The part after "+" is build
// metadata, which such parsers ignore. beanstalkd's own builds between releases use the same sign
// ("1.10+4+gdeadbee"), so clients know it.
func statsVersion() string { return Spoken + ".0+polystalk." + metadata() }

// metadata returns our version in the form of build metadata, which cannot contain a "+".
func metadata() string { return strings.ReplaceAll(program.Version, "+", ".") }

// gearmanVersion returns the answer to Gearman's command version, in the same form. Gearman's
// monitoring tools know gearmand's releases, not beanstalkd's.
func gearmanVersion() string { return SpokenGearman + "+polystalk." + metadata() }

// VersionLine returns the text that -v prints.
func VersionLine() string { return buildLine("beanstalkd " + Spoken) }

// GearmandVersionLine returns the text that --version prints in place of gearmand.
func GearmandVersionLine() string {
	return buildLine("Gearman as gearmand " + SpokenGearman + ", beanstalkd " + Spoken)
}

func buildLine(speaks string) string { return program.Line("polystalkd", "speaks "+speaks) }
