package command

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"polystalk/cmd/polystalk/fault"
	"polystalk/cmd/polystalk/views"
)

var roles = []string{"read", "operate", "admin"}

func (a *App) tokenCommand() *cobra.Command {
	all := &cobra.Command{
		Use: "token", Short: "make tokens for polystalkd's --http-tokens-file",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fault.New(fault.Usage, "token: what is to be done is missing: polystalk token new NAME makes one")
			}
			return fault.New(fault.Usage, "token: unknown command %q: polystalk token new NAME makes one", args[0])
		},
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	var (
		role   string
		bodies bool
	)
	c := &cobra.Command{
		Use: "new NAME", Short: "make a token, and its line for the file", Args: arguments("NAME"),
		Long: `Shows a new token, which is for its holder alone, and the line for the file of
--http-tokens-file, from which nobody can learn the token. NAME is whose it is; it
stands in the audit. No server is asked; it reads the file again by polystalk reload.`,
		RunE: func(_ *cobra.Command, args []string) error {
			name := args[0]
			switch {
			case !slices.Contains(roles, role):
				return fault.New(fault.Usage, "--role %q is no role: give read, operate or admin", role)
			case strings.IndexFunc(name, func(r rune) bool { return r <= ' ' || r == '#' || r >= 0x7F }) >= 0 || name == "":
				return fault.New(fault.Usage, "%q cannot be a name: give letters, digits or signs without spaces and #", name)
			}
			token := rand.Text()
			line := fmt.Sprintf("%s %s sha256:%x", name, role, sha256.Sum256([]byte(token)))
			if bodies {
				line += " +bodies"
			}
			document, err := json.Marshal(map[string]string{"token": token, "line": line})
			if err != nil {
				return err
			}
			return a.printer.Show(document, views.Token)
		},
	}
	c.Flags().StringVar(&role, "role", "read", "read, operate or admin")
	c.Flags().BoolVar(&bodies, "bodies", false, "its holder may see all of the bodies, whatever his role")
	all.AddCommand(c)
	return all
}
