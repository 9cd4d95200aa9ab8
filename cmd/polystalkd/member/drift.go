package member

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"polystalk/router/cluster"
)

// A server that starts at another address asks the others to change its address. From then on they
// connect only to the new address: a process on a copy of the directory would cut off the original.
// So an address changes only if no other process answers as that server at the old one. Every start
// checks that before consensus begins: a copy must not vote.
//
// A server may be removed or moved while it cannot be reached. So it asks the others whenever it
// hears no leader. Only messages count: the leader that it knows may follow another by now.

// checkPlace checks before consensus that no other process answers as this server, and asks for
// another address if the members have an old one. It returns only final errors: see isFinal. The
// health loop retries after other errors.
func (m *Member) checkPlace() (err error) {
	ctx, cancel := context.WithTimeout(m.ctx, moveWithin)
	defer cancel()
	members := m.state.Members()
	one := members.Find(m.id.Node)
	if one.Addr == m.o.Config.Cluster.Advertise {
		err = m.checkVacant(ctx, one, m.process)
	} else {
		m.log.Info("this server has another address than the others know: telling them", "known", one.Addr, "is", m.o.Config.Cluster.Advertise)
		err = m.settle(ctx, members)
	}
	if !isFinal(err) {
		return nil
	}
	return err
}

// isFinal reports whether an error ends the Member: it was removed, or another process has its place.
func isFinal(err error) bool {
	_, is := errors.AsType[*twinError](err)
	return is || errors.Is(err, cluster.ErrRemoved)
}

// settle asks the others whether this server is a member, and at which address. If no other process
// answers there, it asks them to change the address to this process's. After an error that is not
// final the caller tries again.
func (m *Member) settle(ctx context.Context, members *cluster.Members) error {
	known, err := m.askAround(ctx, members)
	if err != nil {
		return err
	}
	if err := m.checkVacant(ctx, known, m.process); isFinal(err) || known.Addr == m.o.Config.Cluster.Advertise {
		return err
	}
	body, err := json.Marshal(moveRequest{m.o.Config.Cluster.Advertise, m.process})
	if err != nil {
		return err
	}
	errs := m.eachOther(members, func(one *cluster.Member) error {
		status, answer, err := m.request(ctx, one, http.MethodPost, movePath, body)
		switch {
		case err != nil || status == http.StatusNoContent:
			return err
		case status == http.StatusConflict:
			return &twinError{oneLine(answer)}
		}
		return errors.New(oneLine(answer))
	})
	if slices.Contains(errs, nil) {
		return nil
	}
	return errors.Join(errs...)
}

// eachOther calls f for all other members at once, since some may not answer, and returns the errors.
func (m *Member) eachOther(members *cluster.Members, f func(*cluster.Member) error) []error {
	var errs []error
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range members.List {
		one := &members.List[i]
		if one.ID == m.id.Node {
			continue
		}
		all.Go(func() {
			err := f(one)
			if err != nil {
				err = fmt.Errorf("%s: %w", one.Name, err)
			}
			mu.Lock()
			errs = append(errs, err)
			mu.Unlock()
		})
	}
	all.Wait()
	return errs
}

// A twinError says that another process answers as this server at the address that the members have.
type twinError struct{ address string }

func (t *twinError) Error() string { return "another process answers as this server at " + t.address }

// checkVacant asks which process answers as a member at its address. It returns nil if none does, or
// if it is the given one: a process can have several addresses. After another error than a
// *twinError the answer is unknown, as while a process starts.
func (m *Member) checkVacant(ctx context.Context, one *cluster.Member, process uint64) error {
	told, err := m.askMembership(ctx, one)
	var absent *unreached
	switch {
	case errors.As(err, &absent), err == nil && told.Process == process:
		return nil
	case err == nil:
		return &twinError{one.Addr}
	}
	return fmt.Errorf("the process that listens at %s does not identify itself: %w", one.Addr, err)
}

// askAround asks the others for this server's membership, and returns the latest that any of them
// knows. The error is cluster.ErrRemoved if this server was removed.
func (m *Member) askAround(ctx context.Context, members *cluster.Members) (*cluster.Member, error) {
	known, latest := m.o.Config.Cluster.Advertise, members.Index
	if one := members.Find(m.id.Node); one != nil {
		known = one.Addr
	}
	var mu sync.Mutex
	errs := m.eachOther(members, func(one *cluster.Member) error {
		told, err := m.askMembership(ctx, one)
		if err != nil {
			m.log.Debug("a server did not answer whether this one is a member", "node", one.Name, "err", err)
			return nil
		}
		if told.removes(members) {
			return cluster.ErrRemoved
		}
		mu.Lock()
		defer mu.Unlock()
		if told.Index > latest && told.Address != "" {
			known, latest = told.Address, told.Index
		}
		return nil
	})
	return &cluster.Member{ID: m.id.Node, Addr: known}, errors.Join(errs...)
}

// askMembership asks another server, or the process at this server's address, for the membership.
func (m *Member) askMembership(ctx context.Context, to *cluster.Member) (*membership, error) {
	ctx, cancel := context.WithTimeout(ctx, requestWithin)
	defer cancel()
	status, answer, err := m.request(ctx, to, http.MethodGet, membershipPath, nil)
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("it answers %d %s", status, http.StatusText(status))
	}
	told := new(membership)
	return told, json.Unmarshal(answer, told)
}
