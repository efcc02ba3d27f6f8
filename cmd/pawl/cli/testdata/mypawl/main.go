// Mypawl is the command line with a backend of one's own.
package main

import (
	"os"

	"github.com/pawlhq/pawl/cmd/pawl/cli"

	_ "github.com/pawlhq/pawl/cmd/pawl/cli/testdata/mypawl/mine"
)

func main() { os.Exit(cli.Main()) }
