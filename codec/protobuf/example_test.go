package protobuf_test

import (
	"fmt"
	"log"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pawlhq/pawl/codec/protobuf"
)

// Messages are encoded as such, everything else as JSON. A program hands the codec to
// its engine: engine.PayloadCodec(protobuf.Codec{}).
func ExampleCodec() {
	var c protobuf.Codec
	data, err := c.Marshal(durationpb.New(90 * time.Second))
	if err != nil {
		log.Fatal(err)
	}
	var d *durationpb.Duration
	err = c.Unmarshal(data, &d)
	fmt.Println(len(data), d.AsDuration(), err)

	data, err = c.Marshal("no message")
	fmt.Println(string(data), err)
	// Output:
	// 2 1m30s <nil>
	// "no message" <nil>
}
