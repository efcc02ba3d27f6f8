package zstd_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/pawlhq/pawl/codec"
	"github.com/pawlhq/pawl/codec/zstd"
	"github.com/pawlhq/pawl/engine"
)

// Payloads of more than 200 bytes are compressed; shorter ones stay as they are.
func ExampleNew() {
	c := codec.Chain(engine.JSON{}, zstd.New(zstd.Above(200)))
	long, err := c.Marshal(strings.Repeat("all work and no play ", 1000))
	if err != nil {
		log.Fatal(err)
	}
	short, err := c.Marshal("play")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(long) < 200, string(short))
	// Output:
	// true "play"
}
