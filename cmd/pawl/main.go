// Pawl is the command line of the durable workflow engine. It shows runs, controls
// them, and finds problems. docs/cli.md describes it.
package main

import (
	"os"

	"github.com/pawlhq/pawl/cmd/pawl/cli"
)

func main() { os.Exit(cli.Main()) }
