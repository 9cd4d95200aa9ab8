package config

import (
	"fmt"
	"math"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// Bounds of the memory of all connections together, in bytes. The default is a quarter of the
// machine's memory. The minimum is the larger of connectionMemoryMin and the space for bodiesMin
// of the largest bodies. Half of the bound is for garbage (router/session), so two such bodies
// fit: other clients cannot make the server close the connection of an honest producer.
const (
	connectionMemoryPart = 4
	connectionMemoryMin  = 8 << 20
	bodiesMin            = 4
)

func (c *Config) setConnectionMemory(s string) error {
	n, negative, ok := parseNumber(s)
	if !ok || negative || n > math.MaxInt64 {
		return &badValue{"give a whole number of bytes", "268435456"}
	}
	c.ConnectionMemory = int64(n)
	return nil
}

// fillConnectionMemory sets the default, and raises a value that is too small.
func (c *Config) fillConnectionMemory() {
	least := max(connectionMemoryMin, bodiesMin*int64(c.MaxJobSize))
	if len(c.Gearman.Addresses) > 0 {
		least = max(least, bodiesMin*int64(c.Gearman.MaxBody))
	}
	switch n := c.ConnectionMemory; {
	case n == 0:
		c.ConnectionMemory = max(least, machineMemory()/connectionMemoryPart)
	case n < least:
		c.Warnings = append(c.Warnings, fmt.Sprintf("the least memory for connections is %d bytes, enough for %d of the largest bodies; it is used instead of %d", least, bodiesMin, n))
		c.ConnectionMemory = least
	}
}

// memoryUnknown is assumed as the machine's memory, in bytes, if the system does not report it.
const memoryUnknown = 1 << 30

// machineMemory returns the memory that this process can use, in bytes: the machine's memory, or
// the limit of its control groups if that is smaller.
func machineMemory() int64 {
	least := int64(memoryUnknown)
	if n, err := memlimit.FromSystem(); err == nil && n > 0 {
		least = int64(min(n, math.MaxInt64))
	}
	if n, err := memlimit.FromCgroup(); err == nil && n > 0 {
		least = min(least, int64(min(n, math.MaxInt64)))
	}
	return least
}
