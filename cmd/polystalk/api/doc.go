// Package api asks polystalkd by HTTP: its API for operators, as router/http/openapi.json
// describes it, and its probes.
//
// Client is one server. It adds the token, says in one line what is wrong with a server that
// is not there, slow, older, or something else, and turns problems into faults.
package api
