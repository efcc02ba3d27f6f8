// Pawl is the command line with the stores of this example besides its own.
package main

import (
	"os"

	"github.com/pawlhq/pawl/cmd/pawl/cli"

	_ "github.com/pawlhq/pawl/examples/backend/bolt"
	_ "github.com/pawlhq/pawl/examples/backend/pebble"
)

func main() { os.Exit(cli.Main()) }
