package codec_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"strings"

	"github.com/pawlhq/pawl/backends/sqlite"
	"github.com/pawlhq/pawl/codec"
	"github.com/pawlhq/pawl/codec/zstd"
	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/worker"
	"github.com/pawlhq/pawl/workflow"
)

// key makes a key of AES-256. A program reads it from where it keeps its secrets.
func key() []byte {
	k := make([]byte, 32)
	rand.Read(k)
	return k
}

// Payloads are compressed and then encrypted. The database sees neither inputs nor
// results.
func Example() {
	keys := codec.Keyring{Current: "2026-11", Keys: map[string][]byte{"2026-11": key()}}
	sealed := codec.Chain(engine.JSON{}, zstd.New(), codec.AESGCM(keys))

	ctx := context.Background()
	st, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	eng := engine.New(st, engine.PayloadCodec(sealed), engine.Logger(slog.New(slog.DiscardHandler)))
	defer eng.Close()
	diagnose := workflow.New("diagnose", func(ctx workflow.Context, patient string) (string, error) {
		return patient + " is well", nil
	})
	w := worker.New(eng)
	if err := w.Register(diagnose); err != nil {
		log.Fatal(err)
	}
	h, err := diagnose.Start(ctx, eng, "Ann")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := w.RunUntilIdle(ctx); err != nil {
		log.Fatal(err)
	}

	fmt.Println(h.Result(ctx))
	run, err := eng.Get(ctx, h.ID())
	fmt.Println("in the database:", bytes.Contains(run.Output, []byte("Ann")), err)
	// Output:
	// Ann is well <nil>
	// in the database: false <nil>
}

// A new key seals from now on. The old key stays, for payloads that it has sealed.
func ExampleKeyring() {
	march, april := key(), key()
	before := codec.Chain(engine.JSON{}, codec.AESGCM(codec.Keyring{
		Current: "march", Keys: map[string][]byte{"march": march},
	}))
	after := codec.Chain(engine.JSON{}, codec.AESGCM(codec.Keyring{
		Current: "april", Keys: map[string][]byte{"march": march, "april": april},
	}))
	data, err := before.Marshal("a secret")
	if err != nil {
		log.Fatal(err)
	}

	var text string
	err = after.Unmarshal(data, &text)
	fmt.Println(text, err)

	lost := codec.Chain(engine.JSON{}, codec.AESGCM(codec.Keyring{
		Current: "april", Keys: map[string][]byte{"april": april},
	}))
	fmt.Println(errors.Is(lost.Unmarshal(data, &text), codec.ErrKey))
	// Output:
	// a secret <nil>
	// true
}

// reverse is a transform of the program's own. The mark distinguishes its output from older
// payloads.
type reverse struct{}

var mark = codec.Mark('r')

func (reverse) Seal(data []byte) ([]byte, error) {
	sealed := append([]byte{}, mark[:]...)
	for i := range data {
		sealed = append(sealed, data[len(data)-1-i])
	}
	return sealed, nil
}

func (reverse) Open(sealed []byte) ([]byte, error) {
	rest, ok := bytes.CutPrefix(sealed, mark[:])
	if !ok {
		return sealed, nil
	}
	data := make([]byte, len(rest))
	for i := range rest {
		data[i] = rest[len(rest)-1-i]
	}
	return data, nil
}

// A codec takes any transform, and still reads what was stored before it had one.
func ExampleTransform() {
	c := codec.Chain(engine.JSON{}, reverse{})
	data, err := c.Marshal("abc")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.Contains(string(data), `"cba"`))

	var text string
	err = c.Unmarshal(data, &text)
	fmt.Println(text, err)
	err = c.Unmarshal([]byte(`"from before"`), &text)
	fmt.Println(text, err)
	// Output:
	// true
	// abc <nil>
	// from before <nil>
}
