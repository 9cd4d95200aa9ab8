package main

import (
	"context"
	"errors"
	"time"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
	"polystalk/cmd/polystalkd/member"
	"polystalk/codec/tomlfile"
	"polystalk/router"
	"polystalk/router/access"
)

// openAccess reads the access file of c; nil: there is none. Errors are faults.
func openAccess(c *config.Config) (*access.Identities, error) {
	if c.AccessFile == "" {
		return nil, nil
	}
	ids, err := access.Open(c.AccessFile)
	return ids, accessFaults(err)
}

// checkAccess reads the access file.
func checkAccess(c *config.Config) error {
	_, err := openAccess(c)
	return err
}

// readAccess returns the part of a reload that reads the access file again. of is
// nil without a cluster.
func (r *reloader) readAccess(ids *access.Identities, srv *router.Server, of *member.Member) reloadable {
	log := r.log
	return func(next *config.Config) (func(), error) {
		use, err := ids.Prepare()
		return func() {
			use()
			r.reauthorize(srv, of)
			log.Info("the access file was read again", "identities", len(ids.All()), "closed", r.closed, "digest", ids.Digest())
			warnOfExposure(ids, next, log)
		}, accessFaults(err)
	}
}

// reauthorize closes the connections that may no longer be open. of is nil without a cluster.
func (r *reloader) reauthorize(srv *router.Server, of *member.Member) {
	ctx, cancel := context.WithTimeout(context.Background(), reauthorizeWithin)
	defer cancel()
	var err error
	if r.closed, err = srv.Reauthorize(ctx); err != nil {
		r.log.Error("the files were read again, but not all connections were checked", "err", err)
	}
	if of != nil {
		r.closed += of.Reauthorize()
	}
}

// reauthorizeWithin bounds the time of a reload for the check of all connections.
const reauthorizeWithin = 10 * time.Second

// warnOfExposure logs a warning if other users may read or write the access file.
func warnOfExposure(ids *access.Identities, c *config.Config, log *logger) {
	if ids != nil && ids.Exposed() {
		log.Warn("other users of this machine may read the access file, or may write it: chmod 0640", "file", c.AccessFile)
	}
}

// accessFaults returns all errors of an access file as faults at their places.
func accessFaults(err error) error {
	list, _ := errors.AsType[tomlfile.Errors](err)
	var all fault.Faults
	for _, e := range list {
		all = append(all, config.FileFault(e))
	}
	return all.Err()
}
