package config

import (
	"fmt"
	"math"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// The bound of what all connections together make the server keep, in bytes. By default it
// is a quarter of the machine's memory. It is never less than connectionMemoryMin, or enough
// for bodiesMin of the largest bodies: half of the bound is for garbage (router/session), so
// two fit, and other clients cannot close the connection of an honest producer.
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

// fillConnectionMemory sets what was not set, and raises what is too little.
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

// memoryUnknown is taken for the machine's memory, in bytes, where the system does not tell.
const memoryUnknown = 1 << 30

// machineMemory returns the memory that this process can use, in bytes: the memory of the
// machine, or the limit of its control groups if that is less.
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
