package gearmand

// benchLoads are the loads by which polystalkd's Gearman side is judged. What
// takes minutes on the reference, whose hash tables do not grow, runs in the
// first round only.
var benchLoads = []string{
	"echo name=echo conns=8",
	"foreground name=foreground conns=64 workers=16 body=100",
	"background name=background conns=8 body=100",
	"background name=bulk conns=8 depth=100 body=100 count=1000000 rounds-max=1",
	"drain name=drain conns=4 body=100 count=20000 waiting=1000000 rounds-max=1",
	"memory name=memory body=100 count=200000 rounds-max=1",
}

// goals are goals about benchLoads.
var goals = []string{
	"foreground: polystalkd.cpu<=0.6",
	"foreground: polystalkd.ops>=1.3",
	"background: polystalkd.cpu<=0.5",
	"bulk: polystalkd.ops>=8",
	"bulk: polystalkd.sustained>=0.8",
	"drain: polystalkd.ops>=10",
	"memory: polystalkd.bytes<=350",
}
