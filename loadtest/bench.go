package main

// benchLoads are the loads of the published table. Server and load are pinned
// as the flags say, except where a load is about using all cores.
// What takes long on the reference runs in the first round only, and a server
// called one-loop takes part only where it is asked for: the whole must end
// within ten minutes.
var benchLoads = []string{
	"cycle name=cycle skip=one-loop",
	"cycle name=cycle-16 depth=16 skip=one-loop",
	"one-tube name=one-tube skip=one-loop",
	"put name=put skip=one-loop",
	"drain name=drain count=150000 skip=one-loop",
	"many-tubes name=tubes-50 tubes=50 skip=one-loop",
	"many-tubes name=tubes-5000 tubes=5000 skip=one-loop",
	"many-tubes name=tubes-50000 tubes=50000 rounds-max=1 skip=one-loop",
	"idle-tubes name=idle-50 tubes=50 skip=one-loop",
	"idle-tubes name=idle-5000 tubes=5000 skip=one-loop",
	"idle-tubes name=idle-50000 tubes=50000 rounds-max=1 skip=one-loop",
	"held name=held-100 held=100 skip=one-loop",
	"held name=held-40000 held=40000 rounds-max=1 skip=one-loop",
	"multi-watch name=watch-1 tubes=1 skip=one-loop",
	"multi-watch name=watch-16 tubes=16 skip=one-loop",
	"laravel name=laravel skip=one-loop",
	"big-bodies name=big-bodies skip=one-loop",
	"wakeup name=wakeup rate=2000 server-cpus=all load-cpus=all skip=one-loop",
	"cycle name=all-cores depth=16 processes=2 server-cpus=all load-cpus=all",
	"memory name=memory count=1000000 rounds-max=1 skip=one-loop",
}

// goals are what polystalkd set out to reach against the reference, as
// assertions about benchLoads. The server "one-loop" is polystalkd with one
// loop and one shard, if it takes part.
var goals = []string{
	"cycle: cpu<=0.87",
	"cycle: cpu/floor<=1.08",
	"cycle-16: cpu<=0.10",
	"cycle-16: ops>=8",
	"one-tube: cpu<=0.92",
	"tubes-5000: cpu/@tubes-50<=1.15",
	"tubes-50000: cpu/@tubes-50<=1.15",
	"idle-5000: cpu/@idle-50<=1.15",
	"idle-50000: cpu/@idle-50<=1.15",
	"held-40000: cpu/@held-100<=1.15",
	"watch-16: cpu/@watch-1<=1.5",
	"laravel: cpu<=0.70",
	"wakeup: p99<=1",
	"all-cores: ops>=1.3",
	"all-cores: ops/one-loop>=1.3",
	"memory: bytes<=200",
	"memory: kept<=0.2",
}
