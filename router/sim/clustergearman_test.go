package sim

import (
	"fmt"
	"strings"

	"polystalk/codec/gearman"
)

// A clusterGear is a Gearman client: it submits background jobs at any time, and works while the
// world is at rest.
type clusterGear struct {
	k      *sock // nil: it is not connected
	asked  []string
	doubts *chaosConn // all requests without replies: their jobs may or may not exist
	often  int        // percentage of steps that submit
	large  int        // largest body in bytes
	most   int        // a worker does fewer jobs than this
}

// submit submits a job, or reads replies.
func (k *clusterChaos) submit() error {
	g := &k.gear
	if g.doubts == nil {
		g.doubts = &chaosConn{}
		k.dead = append(k.dead, g.doubts)
	}
	if g.k == nil {
		g.k = k.w.openGearman()
	}
	k.puts++
	body := fmt.Sprintf("background-%d ", k.puts)
	if k.rng.IntN(2) == 0 {
		body += strings.Repeat("z", k.rng.IntN(k.gear.large))
	}
	k.bodies[body] = 0
	g.asked = append(g.asked, body)
	g.doubts.asked = append(g.doubts.asked, question{line: "put", body: body})
	g.k.Send(packet(gearman.SubmitJobBG, "background", "", body))
	return k.hearGear()
}

// hearGear reads which jobs were acknowledged.
func (k *clusterChaos) hearGear() error {
	g := &k.gear
	if g.k == nil {
		return nil
	}
	return gearPackets(g.k, func(p *gearPacket) error {
		if p.t == gearman.Error && len(g.asked) > 0 { // a disk is full
			g.asked = g.asked[1:]
			return nil
		}
		if p.t != gearman.JobCreated || len(g.asked) == 0 {
			return fmt.Errorf("a client that submits gets %v %q", p.t, p.args)
		}
		id, err := jobOf(p)
		if err != nil {
			return err
		}
		if was, ok := k.inserted[id]; ok {
			return fmt.Errorf("id %d is given out again: it was %.20q", id, was)
		}
		k.inserted[id] = g.asked[0]
		g.asked = g.asked[1:]
		return nil
	})
}

// gearPackets takes the complete packets.
func gearPackets(k *sock, take func(*gearPacket) error) error {
	var m gearman.Message
	for len(k.Got) > 0 {
		n, fault := gearman.ParseReply(&m, k.Got, 1<<30)
		if fault != nil || !m.Type.HasData() && m.Size > 0 {
			return fmt.Errorf("no packet: %.60q", k.Got)
		}
		if n == 0 || len(k.Got) < n+m.Size {
			return nil // the rest waits for a commit
		}
		p := &gearPacket{t: m.Type, data: string(k.Got[n : n+m.Size])}
		for _, a := range m.Args[:m.N] {
			p.args = append(p.args, string(a))
		}
		k.Got = k.Got[n+m.Size:]
		if err := take(p); err != nil {
			return err
		}
	}
	return nil
}

// work lets a worker do some jobs, one after the other, while the world is at rest.
func (k *clusterChaos) work() error {
	worker := k.w.openGearman()
	worker.Send(packet(gearman.CanDo, "background"))
	for more := k.rng.IntN(k.gear.most); more > 0; more-- {
		worker.Send(packet(gearman.GrabJob))
		if err := k.w.rest(); err != nil {
			return err
		}
		err := gearPackets(worker, func(p *gearPacket) error {
			if p.t == gearman.NoJob {
				more = 0
				return nil
			}
			id, err := jobOf(p)
			if err != nil {
				return err
			}
			if was, ok := k.inserted[id]; ok && was != p.data {
				return fmt.Errorf("job %d is %.20q, was %.20q", id, p.data, was)
			}
			k.seen["done"]++
			k.gear.doubts.asked = append(k.gear.doubts.asked, question{line: fmt.Sprint("delete ", id)})
			worker.Send(packet(gearman.WorkComplete, p.args[0], ""))
			return nil
		})
		if err != nil {
			return err
		}
	}
	worker.halfClose()
	return k.w.rest()
}
