package config

import (
	"fmt"
	"math"
	"os"
)

// What all connections together may make the server keep, in bytes: a part of the
// memory there is, unless it was set, and never less than connectionMemoryMin or than
// two of the largest bodies.
const (
	connectionMemoryPart = 4
	connectionMemoryMin  = 8 << 20
)

func (c *Config) setConnectionMemory(s string) error {
	n, negative, ok := parseNumber(s)
	if !ok || negative || n > math.MaxInt64 {
		return &badValue{"give a whole number of bytes", "268435456"}
	}
	c.ConnectionMemory = int64(n)
	return nil
}

// fillConnectionMemory sets what was not set, and raises what is too little.
func (c *Config) fillConnectionMemory() {
	least := max(connectionMemoryMin, 2*int64(c.MaxJobSize))
	if len(c.Gearman.Addresses) > 0 {
		least = max(least, 2*int64(c.Gearman.MaxBody))
	}
	switch n := c.ConnectionMemory; {
	case n == 0:
		c.ConnectionMemory = max(least, machineMemory(os.DirFS("/"))/connectionMemoryPart)
	case n < least:
		c.Warnings = append(c.Warnings, fmt.Sprintf("the least memory for connections is %d bytes, enough for two of the largest bodies; it is used instead of %d", least, n))
		c.ConnectionMemory = least
	}
}
