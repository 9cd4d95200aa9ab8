package http

import (
	"fmt"
	"net/http"
	"strings"

	wire "polystalk/codec/admin"
	"polystalk/router/admin"
)

func (a *API) getPolicies(c *call) error {
	set, err := a.op.Policies(c.Ctx)
	return sendPolicies(c, set, err)
}

// putPolicies replaces all policies.
func (a *API) putPolicies(c *call, in *wire.Policies) error {
	if in.Policies == nil {
		return wire.Invalid.With("policies", "it is missing", "give all policies; an empty list removes them")
	}
	e, err := policyEdit(c)
	if err != nil {
		return err
	}
	set, err := a.op.SetPolicies(c.Ctx, in.Policies, e)
	if err == nil && !e.DryRun {
		c.Affected, c.Detail = 1, fmt.Sprintf("%d policies", len(set.Policies))
	}
	return sendPolicies(c, set, err)
}

func (a *API) putPolicy(c *call, in *wire.PolicyView) error {
	e, err := policyEdit(c)
	if err != nil {
		return err
	}
	v, tag, made, err := a.op.SetPolicy(c.Ctx, c.R.PathValue("match"), &in.Policy, e)
	if err != nil {
		return err
	}
	setPoliciesTag(c, tag)
	status := http.StatusOK
	if !e.DryRun {
		c.Affected = 1
		if made {
			status = http.StatusCreated
		}
	}
	return c.answer(status, v)
}

func (a *API) deletePolicy(c *call) error {
	e, err := policyEdit(c)
	if err != nil {
		return err
	}
	return changed(c, a.op.RemovePolicy(c.Ctx, c.R.PathValue("match"), e))
}

// policyEdit reads the conditions of a change.
func policyEdit(c *call) (e admin.PolicyEdit, err error) {
	if c.rt.method() != http.MethodDelete {
		// A number 0 could be meant as a limit, but would be an option that is not set.
		err = wire.RefuseZero(c.Body, "running", "tubes", "expired", "dropped")
	}
	if e.DryRun = c.Query.isTrue("dry_run"); e.DryRun {
		c.Detail = "dry run"
	}
	if err == nil {
		err = c.Query.err
	}
	if err == nil {
		e.IfMatch, err = ifMatch(c, "the policies")
	}
	e.IfMatch = strings.Trim(e.IfMatch, `"`)
	return e, err
}

func sendPolicies(c *call, set *admin.PolicySet, err error) error {
	if err != nil {
		return err
	}
	setPoliciesTag(c, set.Tag)
	return c.answer(http.StatusOK, wire.Policies{Policies: set.Policies})
}

func setPoliciesTag(c *call, tag string) { c.W.Header().Set("ETag", `"`+tag+`"`) }
