module polystalk

go 1.26.0

require (
	// polystalk top: a screen whose keys and figures are tested without a terminal.
	charm.land/bubbletea/v2 v2.0.10
	// loadtest: latency percentiles in constant time, merged exactly over processes.
	github.com/HdrHistogram/hdrhistogram-go v1.4.0
	// The memory limit of the machine or of its control group, from which bounds are derived.
	github.com/KimMachineGun/automemlimit v1.0.1
	// Tests, and the guide's recipe in Go: a client in real use, whose own code parses replies.
	github.com/beanstalkd/go-beanstalk v0.2.0
	// Tube name to slot, for ever: a fixed function, fast on short names.
	github.com/cespare/xxhash/v2 v2.3.0
	// polystalk: how wide a text is on a terminal, and cutting it there.
	github.com/charmbracelet/x/ansi v0.11.7
	// Socket activation and readiness as systemd specifies them.
	github.com/coreos/go-systemd/v22 v22.7.0
	// Tests: every answer of the operators' API is held against its description.
	github.com/getkin/kin-openapi v0.152.0
	// JSON of requests and of imported jobs, strictly: valid Unicode, each member known, in its case and once.
	github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875
	// polystalk: --jq, the expressions that operators know from jq and gh.
	github.com/itchyny/gojq v0.12.20
	// The event loops of the server, and of loadtest's constant server.
	github.com/panjf2000/gnet/v2 v2.10.0
	// Files of the configuration: a TOML parser that tells where each key stands.
	github.com/pelletier/go-toml/v2 v2.4.3
	// /metrics: the formats that scrapers of Prometheus ask for, its names for what every
	// Go process has.
	github.com/prometheus/client_golang v1.25.0
	// Tests: the parser of Prometheus reads what /metrics says.
	github.com/prometheus/common v0.72.0
	// polystalk: the tree of its commands, their help, completions and manuals.
	github.com/spf13/cobra v1.10.2
	// The reference's short flags with attached values, and long ones beside them.
	github.com/spf13/pflag v1.0.10
	// Buffers for what must outlive a turn: held input, bodies under way.
	github.com/valyala/bytebufferpool v1.0.0
	// Consensus between the servers of a cluster: nothing to write oneself.
	go.etcd.io/raft/v3 v3.7.0
	// errgroup: syncs beside the receiver of a journal; loadtest opens connections a few at a time.
	golang.org/x/sync v0.23.0
	// Memory maps, limits, non-blocking writes, affinity: what syscall lacks.
	golang.org/x/sys v0.49.0
	// polystalk: whether it talks to a terminal.
	golang.org/x/term v0.47.0
	// Bounds of rates: journals sent to other servers, HTTP connections and requests.
	golang.org/x/time v0.16.0
	// Messages between the servers of a cluster are raft's, which come in this encoding.
	google.golang.org/protobuf v1.36.12
)

require (
	// loadtest/faults: whether an order of events explains who held a job.
	github.com/anishathalye/porcupine v1.3.1
	github.com/chromedp/cdproto v0.159.0
	github.com/chromedp/chromedp v0.23.0
)

require (
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/charmbracelet/colorprofile v0.4.3 // indirect
	github.com/charmbracelet/ultraviolet v0.0.0-20260703014108-f5a850f9c2b7 // indirect
	github.com/charmbracelet/x/term v0.2.2 // indirect
	github.com/charmbracelet/x/termios v0.1.1 // indirect
	github.com/charmbracelet/x/windows v0.2.2 // indirect
	github.com/clipperhouse/displaywidth v0.11.0 // indirect
	github.com/clipperhouse/uax29/v2 v2.7.0 // indirect
	github.com/go-openapi/jsonpointer v0.22.5 // indirect
	github.com/go-openapi/swag/jsonname v0.25.5 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/itchyny/timefmt-go v0.1.9 // indirect
	github.com/lucasb-eyer/go-colorful v1.4.0 // indirect
	github.com/mattn/go-runewidth v0.0.31 // indirect
	github.com/muesli/cancelreader v0.2.2 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/oasdiff/yaml v0.1.1 // indirect
	github.com/oasdiff/yaml3 v0.0.14 // indirect
	github.com/panjf2000/ants/v2 v2.12.1 // indirect
	github.com/pbnjay/memory v0.0.0-20210728143218-7b4eea64cf58 // indirect
	github.com/prometheus/client_model v0.6.3 // indirect
	github.com/prometheus/procfs v0.22.0 // indirect
	github.com/rivo/uniseg v0.4.7 // indirect
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3 // indirect
	github.com/xo/terminfo v0.0.0-20220910002029-abceb7e1c41e // indirect
	go.uber.org/multierr v1.11.0 // indirect
	go.uber.org/zap v1.28.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	gopkg.in/natefinch/lumberjack.v2 v2.2.1 // indirect
)
