package cli_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pawlhq/pawl/backends"
	"github.com/pawlhq/pawl/cmd/pawl/cli"
)

// A program runs commands with the streams and the environment of its process.
func ExampleRun() {
	dir, err := os.MkdirTemp("", "pawl")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	db := "sqlite:" + filepath.Join(dir, "runs.db")
	ctx := context.Background()

	s, err := backends.Open(ctx, db) // makes the file
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := s.Close(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("exit code", cli.Run(ctx, "--db", db, "runs", "list"))
	fmt.Println("exit code", cli.Run(ctx, "--db", db, "runs", "show", "--external-id", "order-42"))
	// Output:
	// exit code 0
	// exit code 3
}
