package http

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	wire "polystalk/codec/admin"
	"polystalk/shard/wal"
)

const policies = "/api/v1/policies"

// policyAsk is a change of policies.
func policyAsk(body string) ask { return ask{token: adminToken, json: true, body: body} }

func TestInvalidPoliciesAreRefused(t *testing.T) {
	w := newWorld(t, setup{})
	many := func(n, note int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`{"match":"t%d","note":%q}`, i, strings.Repeat("x", note)))
		}
		return `{"policies":[` + strings.Join(list, ",") + `]}`
	}
	one := func(match string) string { return `{"policies":[{"match":"` + match + `"}]}` }
	for _, tt := range []struct{ path, body, field, remedy string }{
		{"", `{}`, "policies", "empty list"},
		{"", one(""), "policies.match", "1 to 200 bytes"},
		{"", one(strings.Repeat("x", 201)), "policies.match", "1 to 200 bytes"},
		{"", one("a*b"), "policies.match", "one *"},
		{"", one("a**"), "policies.match", "one *"},
		{"", one("a%2Ab"), "policies.match", "one *"},
		{"", one("a b"), "policies.match", "%XX"},
		{"", one("ä"), "policies.match", "%XX"},
		{"", one("%zz"), "policies.match", "%XX"},
		{"", `{"policies":[{"match":"a"},{"match":"%61"}]}`, "policies.match", "give one"},
		{"", `{"policies":[{"match":"a","burst":5}]}`, "policies.burst", "per_second"},
		{"", many(1001, 0), "policies", "at most 1000"},
		{"", many(500, 100), "policies", "32768 bytes"},
		{"/" + strings.Repeat("x", 201), `{}`, "match", "200"},
		{"/a*b", `{}`, "match", "one *"},
		{"/mail", `{"match":"news"}`, "match", "omit it"},
		{"/mail", `{"atempts":3}`, "atempts", "; attempts is the nearest name"},
		{"/mail", `{"attempts":"3"}`, "attempts", "whole number"},
		{"/mail", `{"attempts":-1}`, "attempts", "whole number"},
		{"/mail", `{"attempts":0}`, "attempts", "larger number"},
		{"/mail", `{"attempts":1.5}`, "attempts", "whole number"},
		{"/mail", `{"attempts":1000001}`, "attempts", "at most 1000000"},
		{"/mail", `{"backoff_seconds":2147483649}`, "backoff_seconds", "at most 2147483648"},
		{"/mail", `{"backoff_seconds":10,"backoff_max_seconds":9}`, "backoff_max_seconds", "at least"},
		{"/mail", `{"backoff_max_seconds":9}`, "backoff_max_seconds", "at least"},
		{"/mail", `{"ttl_seconds":2147483649}`, "ttl_seconds", "at most"},
		{"/mail", `{"ttl_seconds":9,"expired":"burn"}`, "expired", "delete or bury"},
		{"/mail", `{"max_jobs":9007199254740993}`, "max_jobs", "at most"},
		{"/mail", `{"max_bytes":99999999999999999999}`, "max_bytes", "whole number"},
		{"/mail", `{"max_jobs":9,"full":"drop"}`, "full", "refuse or drop-oldest"},
		{"/mail", `{"running":1000001}`, "running", "at most"},
		{"/mail", `{"per_second":0.0001}`, "per_second", "3 decimals"},
		{"/mail", `{"per_second":1e-10}`, "per_second", "3 decimals"},
		{"/mail", `{"per_second":0.1234}`, "per_second", "3 decimals"},
		{"/mail", `{"per_second":-1}`, "per_second", "0.001"},
		{"/mail", `{"per_second":1000000.001}`, "per_second", "1000000"},
		{"/mail", `{"per_second":0}`, "per_second", "larger number"},
		{"/mail", `{"per_second":1,"burst":1000001}`, "burst", "at most"},
		{"/mail", `{"burst":1}`, "burst", "per_second"},
		{"/mail", `{"buried_ttl_seconds":2147483649}`, "buried_ttl_seconds", "at most"},
		{"/mail", `{"max_buried":0}`, "max_buried", "larger number"},
		{"/mail", `{"note":"` + strings.Repeat("ä", 65) + `"}`, "note", "128 bytes"},
	} {
		for _, dry := range []string{"", "?dry_run=true"} {
			p := w.do("PUT", policies+tt.path+dry, policyAsk(tt.body)).wants(t, 422, "invalid").problem(t)
			expect(t, p.Field == tt.field && strings.Contains(p.Remedy, tt.remedy), "%s %.80s: %+v", tt.path, tt.body, p)
		}
	}
	w.do("DELETE", policies+"/mail", policyAsk("")).wants(t, 404, "not-found")
	w.do("PUT", policies+"/mail", ask{token: readToken, json: true, body: `{"attempts":3}`}).wants(t, 403, "not-permitted")
	w.do("GET", policies, ask{token: readToken}).wants(t, 200, "")
	set := get[wire.Policies](w, policies, adminToken)
	expect(t, len(set.Policies) == 0, "a refused one is there: %+v", set)
}

// everyOption is a policy with all options, with their largest or an unusual value.
const everyOption = `{"match":"%2F%FF.*","note":"why: ä","attempts":1000000,"backoff_seconds":2,"backoff_max_seconds":2147483648,"ttl_seconds":86400,` +
	`"expired":"bury","max_jobs":9007199254740992,"max_bytes":1,"full":"drop-oldest","running":0,"per_second":0.001,"burst":1000000,"buried_ttl_seconds":1,"max_buried":3,"tubes":0}`

// TestPoliciesStay as they were set, also after a restart, and each change has another tag.
func TestPoliciesStay(t *testing.T) {
	dir := t.TempDir()
	var was, tag string
	t.Run("set", func(t *testing.T) {
		w := newWorld(t, setup{dir: dir})
		empty := w.do("GET", policies, policyAsk("")).wants(t, 200, "").header.Get("ETag")
		a := w.do("PUT", policies+"/default", policyAsk(`{"running":0}`)).wants(t, 201, "")
		v := as[wire.PolicyView](t, a)
		expect(t, strings.Contains(v.Warning, "no note") && v.Tubes == 1 && *v.Running == 0 && v.Match == "default", "%+v", v)
		first := a.header.Get("ETag")
		expect(t, first != empty && first == w.do("GET", policies, policyAsk("")).header.Get("ETag"), "the tags are %s and %s", first, empty)
		tube := get[wire.Tube](w, "/api/v1/tubes/default", adminToken)
		expect(t, *tube.Policy == "default" && *tube.HeldBy == "running", "%+v", tube)
		late := policyAsk(`{"running":1}`)
		late.header = map[string]string{"If-Match": empty}
		w.do("PUT", policies+"/default", late).wants(t, 412, "changed")
		w.do("DELETE", policies+"/default", ask{token: adminToken, header: late.header}).wants(t, 412, "changed")
		late.header["If-Match"] = first
		w.do("PUT", policies+"/default", late).wants(t, 200, "")
		w.do("PUT", policies+"/%2F%FF.%2A", policyAsk(everyOption)).wants(t, 201, "")
		was, tag = "", ""
		a = w.do("GET", policies, policyAsk("")).wants(t, 200, "")
		was, tag = a.body, a.header.Get("ETag")
		expect(t, strings.Contains(was, strings.TrimSuffix(everyOption, "}")), "%s was set, and there is %s", everyOption, was)
		same := w.do("PUT", policies, policyAsk(was)).wants(t, 200, "")
		expect(t, same.body == was && same.header.Get("ETag") == tag, "%s", same.body)
		e := w.audit("")[0]
		expect(t, e.Action == "PUT /api/v1/policies" && e.Detail == "2 policies" && e.Affected == 1, "%+v", e)
	})
	t.Run("restart", func(t *testing.T) {
		w := newWorld(t, setup{dir: dir})
		a := w.do("GET", policies, policyAsk("")).wants(t, 200, "")
		expect(t, a.body == was && a.header.Get("ETag") == tag, "%s, and it was %s", a.body, was)
		w.do("DELETE", policies+"/%2F%FF.*", policyAsk("")).wants(t, 204, "")
		w.do("PUT", policies, policyAsk(`{"policies":[]}`)).wants(t, 200, "")
		tube := get[wire.Tube](w, "/api/v1/tubes/default", adminToken)
		expect(t, tube.Policy == nil && tube.HeldBy == nil && tube.PolicyEvents == nil, "%+v", tube)
	})
}

// TestPolicyIsShownByTubesAndJobs, and a dry run counts jobs and changes nothing.
func TestPolicyIsShownByTubesAndJobs(t *testing.T) {
	w := newWorld(t, setup{})
	say := w.beanstalkd()
	say("use mail")
	say("watch mail")
	for range 7 {
		say("put 0 0 60 10\r\n0123456789")
	}
	dry := func(target, body string) *wire.PolicyView {
		a := w.do("PUT", policies+"/"+target+"?dry_run=true", policyAsk(body)).wants(t, 200, "")
		v := as[wire.PolicyView](t, a)
		now := w.do("GET", policies, policyAsk("")).header.Get("ETag")
		expect(t, a.header.Get("ETag") == now, "the tag is %s, not %s", a.header.Get("ETag"), now)
		return &v
	}
	for range 2 {
		say(fmt.Sprintf("bury %s 0", strings.Fields(say("reserve"))[1]))
	}
	for body, dropped := range map[string]uint64{
		`{"max_jobs":2,"full":"drop-oldest"}`: 3, `{"max_jobs":2}`: 0, `{"max_bytes":45,"full":"drop-oldest"}`: 3, `{"max_buried":1}`: 1,
		`{"max_buried":1,"max_jobs":4,"full":"drop-oldest"}`: 2, `{"max_jobs":5,"full":"drop-oldest"}`: 0, `{"ttl_seconds":1000,"buried_ttl_seconds":1000}`: 0,
	} {
		v := dry("ma*", body)
		expect(t, v.Tubes == 1 && *v.Effect == wire.Effects{Dropped: dropped}, "%s: %+v", body, v.Effect)
	}
	set := as[wire.Policies](t, w.do("PUT", policies+"?dry_run=true", policyAsk(`{"policies":[{"match":"*","max_jobs":1,"full":"drop-oldest"},{"match":"mail"}]}`)).wants(t, 200, ""))
	expect(t, len(set.Policies) == 2 && set.Policies[0].Effect.Dropped == 0 && set.Policies[1].Tubes == 1, "the longest match does not win: %+v", set)
	expect(t, len(get[wire.Policies](w, policies, adminToken).Policies) == 0, "the dry run has changed something")

	w.do("PUT", policies+"/ma*", policyAsk(`{"attempts":2,"max_jobs":5,"full":"drop-oldest"}`)).wants(t, 201, "")
	expect(t, dry("ma*", `{"attempts":2,"max_jobs":5,"full":"drop-oldest"}`).Effect.Dropped == 0, "an unchanged policy has an effect")
	id := strings.Fields(say("reserve"))[1]
	say("release " + id + " 0 0")
	id = strings.Fields(say("reserve"))[1]
	say("release " + id + " 0 0")
	say("put 0 0 60 1\r\nx")
	say("put 0 0 60 1\r\nx")
	tube := get[wire.Tube](w, "/api/v1/tubes/mail", adminToken)
	events, _ := json.Marshal(tube.PolicyEvents)
	expect(t, *tube.Policy == "ma*" && tube.HeldBy == nil && string(events) == `{"dead":1,"delayed":0,"dropped":1,"expired":0,"refused":0}`, "%+v %s", tube, events)
	w.do("POST", fmt.Sprintf("/api/v1/jobs/%d/bury", get[wire.Jobs](w, "/api/v1/jobs?state=ready", adminToken).Jobs[0].ID), ask{token: adminToken}).wants(t, 204, "")
	by := make(map[string]int)
	for _, j := range get[wire.Jobs](w, "/api/v1/jobs?state=buried", adminToken).Jobs {
		by[j.BuriedBy]++
	}
	expect(t, by["worker"] == 2 && by["attempts"] == 1 && by["operator"] == 1, "%v", by)
	dry("ma*", `{}`) // the sample for the metrics is new
	shown := w.do("GET", "/metrics/tubes", policyAsk("")).wants(t, 200, "").body
	for series, want := range map[string]bool{`tube_policy_total{tube="mail",what="dead"} 1`: true, `tube_held{tube="mail",by="rate"} 0`: true, `tube_held{tube="default"`: false} {
		expect(t, strings.Contains(shown, series) == want, "%s is there: %t", series, !want)
	}
}

// TestDryRunCountsOldJobs of each state.
func TestDryRunCountsOldJobs(t *testing.T) {
	long(t)
	w := newWorld(t, setup{})
	say := w.beanstalkd()
	say("use mail")
	say("watch mail")
	for range 5 {
		say("put 0 0 60 1\r\nx")
	}
	say(fmt.Sprintf("bury %s 0", strings.Fields(say("reserve"))[1]))
	count := func(body string) wire.Effects {
		return *as[wire.PolicyView](t, w.do("PUT", policies+"/mail?dry_run=true", policyAsk(body)).wants(t, 200, "")).Effect
	}
	await(t, "the jobs are a second old", func() bool {
		return count(`{"ttl_seconds":1,"buried_ttl_seconds":1}`) == wire.Effects{Expired: 5}
	})
	for body, want := range map[string]wire.Effects{
		`{"ttl_seconds":1}`: {Expired: 4}, `{"buried_ttl_seconds":1}`: {Expired: 1}, `{"ttl_seconds":1,"expired":"bury","max_buried":2}`: {Expired: 4, Dropped: 3},
		`{"ttl_seconds":1,"max_jobs":1,"full":"drop-oldest"}`: {Expired: 4},
	} {
		expect(t, count(body) == want, "%s: %+v", body, count(body))
	}
}

// TestPoliciesOnAFullDisk are not changed, but all can be removed: one may hold back the workers that
// would delete jobs.
func TestPoliciesOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	disk := &fillingDisk{Disk: wal.Dir(dir)}
	w := newWorld(t, setup{dir: dir, disk: disk})
	w.do("PUT", policies+"/a", policyAsk(`{"attempts":3}`)).wants(t, 201, "")
	before := w.do("GET", policies, policyAsk("")).body
	disk.full.Store(true)
	body := `{"body":"` + strings.Repeat("x", 60_000) + `"}`
	for range 1000 {
		if w.do("POST", "/api/v1/tubes/mail/jobs", policyAsk(body)).status == 507 {
			break
		}
	}
	w.do("PUT", policies+"/mail", policyAsk(`{"attempts":3}`)).wants(t, 507, "disk-full")
	after := w.do("GET", policies, policyAsk("")).wants(t, 200, "").body
	expect(t, after == before, "%s, and it was %s", after, before)
	w.do("PUT", policies, policyAsk(`{"policies":[]}`)).wants(t, 200, "")
}

// TestPoliciesThatChangeTogether: none is lost, and all tubes have the last set.
func TestPoliciesThatChangeTogether(t *testing.T) {
	w := newWorld(t, setup{dir: t.TempDir()})
	for i := range 100 {
		w.put(fmt.Sprintf("t%d", i), 1)
	}
	w.do("PUT", policies+"/t*", policyAsk(`{"attempts":9}`)).wants(t, 201, "")
	const clients, each = 8, 5
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for k := range each {
				w.do("PUT", fmt.Sprintf("%s/t%d", policies, i*each+k), policyAsk(`{"attempts":3}`)).wants(t, 201, "")
				w.do("PUT", policies+"/t*", policyAsk(fmt.Sprintf(`{"attempts":%d}`, i+1))).wants(t, 200, "")
			}
		})
	}
	wg.Wait()
	set := get[wire.Policies](w, policies, adminToken)
	expect(t, len(set.Policies) == clients*each+1, "there are %d", len(set.Policies))
	for i := range 100 {
		want := "t*"
		if i < clients*each {
			want = fmt.Sprintf("t%d", i)
		}
		tube := get[wire.Tube](w, fmt.Sprintf("/api/v1/tubes/t%d", i), adminToken)
		expect(t, tube.Policy != nil && *tube.Policy == want, "t%d has %v", i, tube.Policy)
	}
}

// TestFollowerHandsOnPolicies to the leader, unless a member is too old.
func TestFollowerHandsOnPolicies(t *testing.T) {
	p := newPair(t)
	p.follower.do("PUT", policies+"/mail", policyAsk(`{"attempts":3}`)).wants(t, 201, "").by(t, "n2")
	set := as[wire.Policies](t, p.follower.do("GET", policies, ask{}).wants(t, 200, "").by(t, "n2"))
	expect(t, len(set.Policies) == 1 && set.Policies[0].Attempts == 3, "%+v", set)
	k := newFakeCluster()
	k.tooOld = wire.MembersTooOld.Problem("n3")
	w := newWorld(t, setup{cluster: k, dir: t.TempDir()})
	w.do("PUT", policies+"/mail", policyAsk(`{"attempts":3}`)).wants(t, 409, "members-too-old")
	w.do("PUT", policies+"/mail?dry_run=true", policyAsk(`{"attempts":3}`)).wants(t, 200, "")
	expect(t, len(get[wire.Policies](w, policies, adminToken).Policies) == 0, "it was set")
	k.tooOld = nil
	w.do("PUT", policies+"/mail", policyAsk(`{"attempts":3}`)).wants(t, 201, "")
	k.tooOld = wire.MembersTooOld.Problem("not reached: n3") // after a change of the leader
	w.do("DELETE", policies+"/mail", policyAsk("")).wants(t, 204, "")
}

// TestFullTubesRefuseEveryPut: one job, many jobs and a copy. A move is the operator's choice.
func TestFullTubesRefuseEveryPut(t *testing.T) {
	w := newWorld(t, setup{})
	w.do("PUT", policies+"/full", policyAsk(`{"max_jobs":2}`)).wants(t, 201, "")
	w.do("PUT", policies+"/last", policyAsk(`{"max_jobs":1,"full":"drop-oldest"}`)).wants(t, 201, "")
	a := w.do("POST", "/api/v1/jobs", ask{token: adminToken, header: map[string]string{"Content-Type": wire.LinesType}, body: strings.Repeat(`{"tube":"full","body":"x"}`+"\n", 4)})
	if n := strings.Count(a.body, "tube-full"); a.status != 200 || n != 2 {
		t.Errorf("%d: %d of 4 lines are refused: %s", a.status, n, a.body)
	}
	w.do("POST", "/api/v1/tubes/full/jobs", policyAsk(`{"body":"x"}`)).wants(t, 507, "tube-full")
	job := fmt.Sprintf("/api/v1/jobs/%d", as[wire.Job](t, w.do("POST", "/api/v1/tubes/free/jobs", policyAsk(`{"body":"x"}`)).wants(t, 201, "")).ID)
	w.do("POST", job+"/copy", policyAsk(`{"to":"full"}`)).wants(t, 507, "tube-full")
	if a := w.do("POST", operations, policyAsk(`{"action":"copy","to":"full","select":{"tube":"free"}}`)); !strings.Contains(a.body, `"full":1`) {
		t.Error(a.body)
	}
	w.do("POST", job+"/move", policyAsk(`{"to":"full"}`)).wants(t, 201, "")
	w.do("POST", operations, policyAsk(`{"action":"copy","to":"last","select":{"tube":"full"}}`))
	for tube, want := range map[string]uint64{"full": 3, "free": 0, "last": 1} {
		a := w.do("GET", "/api/v1/tubes/"+tube, ask{token: adminToken})
		if a.status == 404 && want == 0 {
			continue
		}
		if n := as[wire.Tube](t, a.wants(t, 200, "")).Jobs.Ready; uint64(n) != want {
			t.Errorf("%s has %d jobs, want %d", tube, n, want)
		}
	}
}
