package bench

// beanstalkdBench has the loads of the published table. The flags say how server and load are
// pinned, except for loads about all cores. polystalkd runs with its defaults: it counts the cores
// that it may use, so pinned to one core it runs one loop. The whole must end within ten minutes,
// so loads that take long on the reference run in the first round only, and a server named one-loop
// skips most loads.
var beanstalkdBench = []string{
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
	"connect name=connect skip=one-loop",
	"big-bodies name=big-bodies skip=one-loop",
	"wakeup name=wakeup rate=2000 duration=4s server-cpus=all load-cpus=all skip=one-loop",
	"cycle name=all-cores depth=16 server-cpus=all load-cpus=all",
	"memory name=memory count=1000000 rounds-max=1 skip=one-loop",
}

// beanstalkdGoals has assertions about beanstalkdBench and a server named polystalkd. one-loop is
// polystalkd with one loop and one shard, if it takes part.
var beanstalkdGoals = []string{
	"cycle: polystalkd.cpu<=0.87", "cycle: polystalkd.cpu/floor<=1.08",
	"cycle-16: polystalkd.cpu<=0.10", "cycle-16: polystalkd.ops>=8",
	"one-tube: polystalkd.cpu<=0.92",
	"tubes-5000: polystalkd.cpu/@tubes-50<=1.15", "tubes-50000: polystalkd.cpu/@tubes-50<=1.15",
	"idle-5000: polystalkd.cpu/@idle-50<=1.15", "idle-50000: polystalkd.cpu/@idle-50<=1.15",
	"held-40000: polystalkd.cpu/@held-100<=1.15",
	"watch-16: polystalkd.cpu/@watch-1<=1.5",
	"laravel: polystalkd.cpu<=0.82",
	"connect: polystalkd.cpu<=1", "connect: polystalkd.ops>=1",
	"wakeup: polystalkd.p99<=1",
	"all-cores: polystalkd.ops>=1.3", "all-cores: polystalkd.ops/one-loop>=1.3",
	"memory: polystalkd.bytes<=200", "memory: polystalkd.kept<=0.2",
}

// gearmandBench has the loads that judge polystalkd's Gearman side. The reference has hash tables
// that do not grow: loads that take minutes there run in the first round only.
var gearmandBench = []string{
	"echo name=echo conns=8",
	"foreground name=foreground conns=64 workers=16 body=100",
	"background name=background conns=8 body=100",
	"background name=bulk conns=8 depth=100 body=100 count=1000000 rounds-max=1",
	"drain name=drain conns=4 body=100 count=20000 waiting=1000000 rounds-max=1",
	"memory name=memory body=100 count=200000 rounds-max=1",
}

var gearmandGoals = []string{
	"foreground: polystalkd.cpu<=0.6", "foreground: polystalkd.ops>=1.3",
	"background: polystalkd.cpu<=0.5",
	"bulk: polystalkd.ops>=8", "bulk: polystalkd.sustained>=0.8",
	"drain: polystalkd.ops>=10",
	"memory: polystalkd.bytes<=350",
}
