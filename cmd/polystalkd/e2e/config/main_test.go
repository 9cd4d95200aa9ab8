package config

import (
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

func TestMain(m *testing.M) { daemon.Main(m) }
