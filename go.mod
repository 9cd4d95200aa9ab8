module polystalk

go 1.26.0

require (
	github.com/beanstalkd/go-beanstalk v0.2.0
	github.com/cespare/xxhash/v2 v2.3.0
	github.com/coreos/go-systemd/v22 v22.7.0
	github.com/panjf2000/gnet/v2 v2.10.0
	github.com/spf13/pflag v1.0.10
	github.com/valyala/bytebufferpool v1.0.0
	golang.org/x/sys v0.49.0
)

require (
	github.com/panjf2000/ants/v2 v2.12.1 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	go.uber.org/zap v1.28.0 // indirect
	golang.org/x/sync v0.11.0 // indirect
	gopkg.in/natefinch/lumberjack.v2 v2.2.1 // indirect
)
