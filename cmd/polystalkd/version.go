package main

import "polystalk/cmd/internal/release"

// spoken is the release of beanstalkd whose protocol and replies we follow.
const spoken = "1.13"

// spokenGearman is the release of gearmand whose behaviour we follow.
const spokenGearman = "2.0.0"

// statsVersion is the version key of the stats reply. Clients compare it as a
// number or as dotted numbers to learn which commands they may send, so it
// starts with the release we speak, padded to three parts for strict semantic
// version parsers. What follows "+" is build metadata, which such parsers
// ignore; beanstalkd's own builds between releases use the same sign
// ("1.10+4+gdeadbee"), so clients have met it.
func statsVersion() string { return spoken + ".0+polystalk." + release.Version }

// gearmanVersion is what Gearman's command version answers, in the same form: its
// monitoring knows gearmand's releases, not beanstalkd's.
func gearmanVersion() string { return spokenGearman + "+polystalk." + release.Version }

// versionLine is what -v prints.
func versionLine() string { return buildLine("beanstalkd " + spoken) }

// gearmandVersionLine is what --version prints in place of gearmand.
func gearmandVersionLine() string {
	return buildLine("Gearman as gearmand " + spokenGearman + ", beanstalkd " + spoken)
}

func buildLine(speaks string) string { return release.Line("polystalkd", "speaks "+speaks) }
