package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// A generator draws beanstalkd commands.
type generator struct {
	rng   *rand.Rand
	names []string
	puts  int
}

// A question is a command that a client sends; body is the job of a put. The rest is for accessChaos.
type question struct {
	line, body string
	used       string // the tube that the client uses
	since      int    // the access file when it was sent
}

func (q *question) bytes() []byte {
	if strings.HasPrefix(q.line, "put") {
		return []byte(q.line + "\r\n" + q.body + "\r\n")
	}
	return []byte(q.line + "\r\n")
}

// words has the commands and their weights. The last three are invalid, or end the connection.
var words = []struct {
	word  string
	often int
}{
	{"put", 48}, {"reserve", 18}, {"reserve-with-timeout", 20}, {"watch", 18}, {"ignore", 9}, {"use", 13}, {"delete", 13}, {"release", 10},
	{"bury", 7}, {"touch", 4}, {"reserve-job", 6}, {"kick", 5}, {"kick-job", 4}, {"peek-ready", 1}, {"peek-delayed", 1}, {"peek-buried", 1},
	{"peek", 3}, {"pause-tube", 5}, {"stats-job", 4}, {"stats-tube", 4}, {"list-tubes", 1}, {"list-tubes-watched", 1}, {"list-tube-used", 1},
	{"stats", 3}, {"nonsense", 2}, {strings.Repeat("long ", 60), 1}, {"quit", 1},
}

const oddWords = 3

func (g *generator) pick(list ...string) string { return list[g.rng.IntN(len(list))] }

func (g *generator) name() string { return g.names[g.rng.IntN(len(g.names))] }

// command draws one of the first n words, with the id of a job.
func (g *generator) command(n int, id uint64) question {
	sum := 0
	for _, w := range words[:n] {
		sum += w.often
	}
	i := 0
	for r := g.rng.IntN(sum) - words[0].often; r >= 0; r -= words[i].often {
		i++
	}
	line := func(f string, args ...any) question { return question{line: words[i].word + fmt.Sprintf(f, args...)} }
	pri, delay := g.pick("0", "1", "5", "5", "1023", "1024", "4294967295"), g.pick("0", "0", "0", "0", "1", "2", "5")
	switch words[i].word {
	case "put":
		return g.put(pri, delay)
	case "reserve-with-timeout":
		return line(" %s", g.pick("0", "0", "1", "2", "4"))
	case "use", "watch", "ignore", "stats-tube":
		return line(" %s", g.name())
	case "delete", "touch", "reserve-job", "kick-job", "peek", "stats-job":
		return line(" %d", id)
	case "release":
		return line(" %d %s %s", id, pri, delay)
	case "bury":
		return line(" %d %s", id, pri)
	case "kick":
		return line(" %s", g.pick("0", "1", "2", "3", "1000"))
	case "pause-tube":
		return line(" %s %s", g.name(), g.pick("0", "0", "1", "3"))
	}
	return line("")
}

// put draws a put. No two have the same body.
func (g *generator) put(pri, delay string) question {
	g.puts++
	body := fmt.Sprintf("job-%d ", g.puts)
	switch g.rng.IntN(40) {
	case 0:
		body += strings.Repeat("x", 70_000+g.rng.IntN(100_000))
	case 1, 2:
		body += strings.Repeat("y", g.rng.IntN(70_000))
	case 3, 4:
		body += "\r\ndelete 1\r\n"
	}
	return question{line: fmt.Sprintf("put %s %s %s %d", pri, delay, g.pick("0", "1", "2", "3", "10", "60"), len(body)), body: body}
}
