package command

import (
	"github.com/spf13/cobra"

	"polystalk/cmd/polystalk/fault"
	"polystalk/cmd/polystalk/queue"
)

func (a *App) pauseCommand() *cobra.Command {
	var names tubeName
	c := &cobra.Command{
		Use: "pause TUBE TIME", Short: "have workers get no jobs of a tube, for a time such as 90s, 5m or 12h", Args: arguments("TUBE", "TIME"),
		RunE: a.onQueue(func(cmd *cobra.Command, q queue.Queue, args []string) error {
			name, err := names.read(args[0])
			if err != nil {
				return err
			}
			seconds, err := readSpan("TIME", args[1])
			if err != nil {
				return err
			}
			if seconds == 0 {
				return fault.New(fault.Usage, "TIME is 0: give a longer one; polystalk resume ends a pause")
			}
			return q.Pause(cmd.Context(), name, seconds)
		}),
	}
	names.flags(c.Flags())
	return c
}

func (a *App) resumeCommand() *cobra.Command {
	var names tubeName
	c := &cobra.Command{
		Use: "resume TUBE", Short: "end the pause of a tube", Args: arguments("TUBE"),
		RunE: a.onQueue(func(cmd *cobra.Command, q queue.Queue, args []string) error {
			name, err := names.read(args[0])
			if err != nil {
				return err
			}
			return q.Pause(cmd.Context(), name, 0)
		}),
	}
	names.flags(c.Flags())
	return c
}
