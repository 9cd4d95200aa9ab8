module polystalk

go 1.26

require (
	github.com/coreos/go-systemd/v22 v22.7.0
	github.com/spf13/pflag v1.0.10
)

require golang.org/x/sys v0.1.0 // indirect
