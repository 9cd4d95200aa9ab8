package config

import "fmt"

// A Check is what --check-config asks for. It implements pflag.Value through check.
type Check string

// The zero value starts the server.
const (
	CheckOnly  Check = "only"  // report faults
	CheckPrint Check = "print" // and print the settings in effect
)

type check Check

// Set implements pflag.Value.
func (c *check) Set(s string) error {
	if Check(s) != CheckOnly && Check(s) != CheckPrint {
		return &badValue{fmt.Sprintf("give %s, or nothing", CheckPrint), ""}
	}
	*c = check(s)
	return nil
}

// String implements pflag.Value.
func (c *check) String() string { return string(*c) }

// Type implements pflag.Value.
func (c *check) Type() string { return "check" }
