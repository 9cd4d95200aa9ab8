package bench

import (
	"encoding/binary"
	"fmt"
)

const amqpGreeting = "AMQP\x00\x00\x09\x01"

// Methods of AMQP 0-9-1: class and number. The answer to a method has the next number.
const (
	amqpStart     = 10<<16 | 10
	amqpTune      = 10<<16 | 30
	amqpOpen      = 10<<16 | 40
	amqpClose     = 10<<16 | 50
	amqpChannel   = 20<<16 | 10
	amqpChanClose = 20<<16 | 40
	amqpDeclare   = 50<<16 | 10
	amqpQos       = 60<<16 | 10
	amqpConsume   = 60<<16 | 20
	amqpCancel    = 60<<16 | 30
	amqpPublish   = 60<<16 | 40
	amqpDeliver   = 60<<16 | 60
	amqpAck       = 60<<16 | 80
	amqpReject    = 60<<16 | 90
	amqpNack      = 60<<16 | 120
	amqpConfirms  = 85<<16 | 10

	amqpFrameEnd = 0xCE
	amqpQueue    = "lt.jobs"
)

// amqpJobs works on a queue of RabbitMQ. A job is put when RabbitMQ confirms it. The connection is a
// consumer with a prefetch of one job. AMQP has no answer to an acknowledgement.
type amqpJobs struct {
	*Conn
	publish []byte // the frames of a publication

	published, confirmed uint64 // numbers of the last job that was put, and of the last that is confirmed
	delivery             uint64 // number of the job that was delivered
	size                 uint64 // its size
	got                  []byte // its body as far as it has arrived
	ready                bool   // it has arrived and is not acknowledged

	method uint32 // of the last frame; 0: it had content
}

func newAMQPJobs(e *env, c *Conn, _ int) (jobber, error) {
	a := &amqpJobs{Conn: c}
	a.Out = append(a.Out, amqpGreeting...)
	durable, mode, arguments := byte(0), byte(1), []byte{}
	if e.Load.Durable {
		durable, mode, arguments = 1<<1, 2, []byte("\x0cx-queue-typeS\x00\x00\x00\x06quorum")
	}
	a.publish = amqpFrame(nil, 1, amqpPublish, uint16(0), "", amqpQueue, byte(0))
	header := binary.BigEndian.AppendUint64([]byte{0, 60, 0, 0}, uint64(e.Load.Body))
	a.publish = amqpEnvelope(a.publish, 2, 1, append(header, 1<<4, 0, mode))
	a.publish = amqpEnvelope(a.publish, 3, 1, c.body)
	err := a.call(nil, amqpStart)
	for _, step := range []struct {
		frames []byte
		until  uint32
	}{
		{amqpFrame(nil, 0, amqpStart+1, []byte{}, "PLAIN", []byte("\x00guest\x00guest"), "en_US"), amqpTune},
		{amqpFrame(amqpFrame(nil, 0, amqpTune+1, uint16(1), uint32(128<<10), uint16(0)), 0, amqpOpen, "/", "", byte(0)), amqpOpen + 1},
		{amqpFrame(nil, 1, amqpChannel, ""), amqpChannel + 1},
		{amqpFrame(nil, 1, amqpConfirms, byte(0)), amqpConfirms + 1},
		{amqpFrame(nil, 1, amqpQos, uint32(0), uint16(1), byte(0)), amqpQos + 1},
		{amqpFrame(nil, 1, amqpDeclare, uint16(0), amqpQueue, durable, arguments), amqpDeclare + 1},
	} {
		if err == nil {
			err = a.call(step.frames, step.until)
		}
	}
	return a, err
}

func (a *amqpJobs) begin() error {
	return a.call(amqpFrame(nil, 1, amqpConsume, uint16(0), amqpQueue, "worker", byte(0), []byte{}), amqpConsume+1)
}

func (a *amqpJobs) end() error {
	err := a.call(amqpFrame(nil, 1, amqpCancel, "worker", byte(0)), amqpCancel+1)
	if err == nil && a.ready {
		a.ready = false
		a.Out = amqpFrame(a.Out, 1, amqpReject, a.delivery, byte(1)) // back into the queue
		err = a.Flush()
	}
	return err
}

func (a *amqpJobs) job() error {
	a.Out = append(a.Out, a.publish...)
	a.published++
	if err := a.ask(); err != nil {
		return err
	}
	for a.confirmed < a.published || !a.ready {
		if err := a.await(a.frame); err != nil {
			return err
		}
	}
	a.ready = false
	if err := a.checkJob(a.got); err != nil {
		return err
	}
	a.Out = amqpFrame(a.Out, 1, amqpAck, a.delivery, byte(0))
	return a.Flush()
}

// call sends frames, and reads frames until that method.
func (a *amqpJobs) call(frames []byte, until uint32) error {
	a.Out = append(a.Out, frames...)
	if err := a.ask(); err != nil {
		return err
	}
	for a.method = 0; a.method != until; {
		if err := a.await(a.frame); err != nil {
			return err
		}
	}
	return nil
}

// frame reads a frame and does what it says.
func (a *amqpJobs) frame(b []byte) (int, error) {
	if len(b) < 7 {
		return 0, nil
	}
	n := int(binary.BigEndian.Uint32(b[3:])) + 8
	if n <= maxBody && len(b) < n {
		return 0, nil
	}
	if n > maxBody || b[n-1] != amqpFrameEnd || b[0] < 3 && n < 12+8*int(b[0]-1) {
		return 0, fmt.Errorf("%w: frame %.60q", ErrMalformed, b)
	}
	payload := b[7 : n-1]
	a.method = 0
	switch b[0] {
	case 2:
		a.size = binary.BigEndian.Uint64(payload[4:])
		a.ready = a.size == 0
	case 3:
		a.got = append(a.got, payload...)
		a.ready = uint64(len(a.got)) == a.size
	case 1:
		a.method = binary.BigEndian.Uint32(payload)
		return n, a.handle(payload[4:])
	}
	return n, nil
}

// handle handles a method that may come at any time.
func (a *amqpJobs) handle(args []byte) error {
	switch a.method {
	case amqpAck:
		if len(args) < 8 {
			return ErrMalformed
		}
		a.confirmed = binary.BigEndian.Uint64(args)
	case amqpDeliver:
		tag := int(append(args, 0)[0]) + 1
		if len(args) < tag+8 {
			return ErrMalformed
		}
		a.delivery, a.got = binary.BigEndian.Uint64(args[tag:]), a.got[:0]
	case amqpNack, amqpCancel, amqpClose, amqpChanClose: // a job was refused, or the server gives up
		return fmt.Errorf("RabbitMQ ended the work with method %d.%d: %.200q", a.method>>16, a.method&0xffff, args)
	}
	return nil
}

// amqpFrame appends a method. A string is a short one of AMQP; bytes are a long one or a table.
func amqpFrame(b []byte, channel byte, method uint32, args ...any) []byte {
	p := binary.BigEndian.AppendUint32(nil, method)
	for _, a := range args {
		switch a := a.(type) {
		case string:
			p = append(append(p, byte(len(a))), a...)
		case []byte:
			p = append(binary.BigEndian.AppendUint32(p, uint32(len(a))), a...)
		default:
			p, _ = binary.Append(p, binary.BigEndian, a) // a number of fixed size
		}
	}
	return amqpEnvelope(b, 1, channel, p)
}

// amqpEnvelope appends a frame.
func amqpEnvelope(b []byte, kind, channel byte, payload []byte) []byte {
	b = append(b, kind, 0, channel)
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	return append(append(b, payload...), amqpFrameEnd)
}
