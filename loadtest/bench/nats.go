package bench

import (
	"bytes"
	"errors"
	"fmt"
)

// natsJobs works on a stream of JetStream with the retention of a work queue. Each connection takes
// one job at a time from the same durable consumer, and waits for the answer to its acknowledgement.
type natsJobs struct {
	*Conn
	asking
	put, next string
	inbox     string
	word      []byte // the last message: its first word; all three are valid until the next read
	reply     []byte // the subject for replies
	data      []byte // the payload
}

func newNATSJobs(e *env, c *Conn, i int) (jobber, error) {
	n := &natsJobs{Conn: c, inbox: fmt.Sprint("_INBOX.", i)}
	n.put = fmt.Sprintf("PUB lt.jobs %s %d\r\n%s\r\n", n.inbox, len(c.body), c.body)
	n.next = fmt.Sprintf("PUB $JS.API.CONSUMER.MSG.NEXT.lt.lt %s 1\r\n1\r\n", n.inbox)
	n.say(`CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true,"protocol":1}`)
	n.say("SUB " + n.inbox + " 1")
	if err := n.ask("PING\r\n", "PONG"); err != nil || i > 0 {
		return n, err
	}
	storage := "memory"
	if e.Load.Durable {
		storage = "file"
	}
	return n, errors.Join(
		n.create("STREAM.CREATE.lt", `{"name":"lt","subjects":["lt.jobs"],"retention":"workqueue","storage":"`+storage+`","num_replicas":1}`),
		n.create("CONSUMER.DURABLE.CREATE.lt.lt", `{"stream_name":"lt","config":{"durable_name":"lt","ack_policy":"explicit","ack_wait":3600000000000}}`))
}

// create asks JetStream's API to create a stream or a consumer.
func (n *natsJobs) create(subject, config string) error {
	request := fmt.Sprintf("PUB $JS.API.%s %s %d\r\n%s\r\n", subject, n.inbox, len(config), config)
	if err := n.ask(request, "MSG"); err != nil {
		return err
	}
	if bytes.Contains(n.data, []byte(`"error"`)) {
		return fmt.Errorf("NATS refused %s: %.200q", subject, n.data)
	}
	return nil
}

func (n *natsJobs) job() error {
	if err := n.ask(n.put, "MSG"); err != nil {
		return err
	}
	if !bytes.HasPrefix(n.data, []byte(`{"stream":"lt"`)) || bytes.Contains(n.data, []byte(`"error"`)) {
		return fmt.Errorf("NATS refused a job: %.200q", n.data)
	}
	if err := n.ask(n.next, "MSG"); err != nil {
		return err
	}
	if err := n.checkJob(n.data); err != nil {
		return err
	}
	n.Out = append(append(append(append(n.Out, "PUB "...), n.reply...), ' '), n.inbox...)
	err := n.ask(" 4\r\n+ACK\r\n", "MSG")
	if err == nil && len(n.data) > 0 {
		err = fmt.Errorf("NATS refused an acknowledgement: %.200q", n.data)
	}
	return err
}

// ask sends the rest of a request and reads messages until one begins with word. A PING is answered
// with the next request.
func (n *natsJobs) ask(request, word string) error {
	n.Out = append(n.Out, request...)
	if err := n.Conn.ask(); err != nil {
		return err
	}
	for {
		if err := n.await(n.parse); err != nil {
			return err
		}
		switch string(n.word) {
		case word:
			return nil
		case "PING":
			n.say("PONG")
		case "INFO", "PONG":
		default: // -ERR, or HMSG with the status of a request that failed
			return fmt.Errorf("wrong reply of NATS: expected %s, got %s %.200q", word, n.word, n.data)
		}
	}
}

// parse reads a message: MSG subject sid [reply-to] size, HMSG with one more size, or a line.
func (n *natsJobs) parse(b []byte) (int, error) {
	end := bytes.IndexByte(b, '\n') + 1
	if end < 2 {
		return 0, nil
	}
	line := b[:end-2]
	word, rest, _ := bytes.Cut(line, []byte{' '})
	n.word, n.data, n.reply = word, rest, nil
	if !bytes.HasSuffix(word, []byte("MSG")) {
		return end, nil
	}
	last := bytes.LastIndexByte(rest, ' ')
	size, ok := parseUint(rest[last+1:], last > 0)
	if !ok || size > maxBody {
		return 0, fmt.Errorf("%w: %.60q", ErrMalformed, line)
	}
	total := end + int(size) + 2
	if len(b) < total {
		return 0, nil
	}
	n.reply = rest[bytes.LastIndexByte(rest[:last], ' ')+1 : last]
	n.data = b[end : total-2]
	return total, nil
}
