package codec_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pawlhq/pawl/codec"
	"github.com/pawlhq/pawl/codec/protobuf"
	"github.com/pawlhq/pawl/codec/zstd"
	"github.com/pawlhq/pawl/engine"
)

var (
	keyA = bytes.Repeat([]byte("a"), 32)
	keyB = bytes.Repeat([]byte("b"), 16)
)

type order struct {
	ID    string
	Notes string
}

func TestRoundTrips(t *testing.T) {
	t.Parallel()
	ring := codec.Keyring{Current: "a", Keys: map[string][]byte{"a": keyA, "b": keyB}}
	for name, c := range map[string]engine.Codec{
		"zstd":         codec.Chain(engine.JSON{}, zstd.New()),
		"aes":          codec.Chain(engine.JSON{}, codec.AESGCM(ring)),
		"zstd and aes": codec.Chain(engine.JSON{}, zstd.New(zstd.Above(0)), codec.AESGCM(ring)),
		"protobuf":     codec.Chain(protobuf.Codec{}, zstd.New(), codec.AESGCM(ring)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, o := range []order{{}, {ID: "1"}, {ID: "2", Notes: strings.Repeat("long ", 10_000)}} {
				data, err := c.Marshal(o)
				require.NoError(t, err)
				again, err := c.Marshal(o)
				require.NoError(t, err)
				if strings.Contains(name, "aes") {
					require.False(t, bytes.Contains(data, []byte("long long")), "it can be read")
					require.False(t, bytes.Equal(data, again), "each has a nonce of its own")
				}
				var got order
				require.NoError(t, c.Unmarshal(data, &got))
				require.Equal(t, o, got)
			}
			d := durationpb.New(90e9)
			data, err := c.Marshal(d)
			require.NoError(t, err)
			var got *durationpb.Duration
			require.NoError(t, c.Unmarshal(data, &got))
			require.Equal(t, d.AsDuration(), got.AsDuration())
			none := 7
			require.NoError(t, c.Unmarshal(nil, &none), "an absent payload")
			require.Equal(t, 7, none)
		})
	}
}

func TestZstd(t *testing.T) {
	t.Parallel()
	z := zstd.New()
	long := bytes.Repeat([]byte("abcdefgh"), 1000)
	small, err := z.Seal(long)
	require.NoError(t, err)
	require.Less(t, len(small), 200)
	short := []byte(`{"a":1}`)
	same, err := z.Seal(short)
	require.NoError(t, err)
	require.Equal(t, short, same, "too short to be worth it")
	plain, err := z.Open(short)
	require.NoError(t, err)
	require.Equal(t, short, plain, "from before the compression")

	// Data that looks like its own is distinguished.
	odd := []byte{0, 'Z', 1, 2, 3}
	sealed, err := z.Seal(odd)
	require.NoError(t, err)
	back, err := z.Open(sealed)
	require.NoError(t, err)
	require.Equal(t, odd, back)

	_, err = z.Open(odd)
	require.ErrorContains(t, err, "marked as compressed")
	_, err = zstd.New(zstd.MaxSize(4000)).Open(small)
	require.ErrorContains(t, err, "at most 4000 bytes")
	_, err = zstd.New(zstd.MaxSize(0)).Seal(long)
	require.ErrorContains(t, err, "must be positive")
}

func TestKeyRotation(t *testing.T) {
	t.Parallel()
	data := []byte("secret")
	before := codec.AESGCM(codec.Keyring{Current: "a", Keys: map[string][]byte{"a": keyA}})
	sealed, err := before.Seal(data)
	require.NoError(t, err)
	both := codec.AESGCM(codec.Keyring{Current: "b", Keys: map[string][]byte{"a": keyA, "b": keyB}})
	got, err := both.Open(sealed)
	require.NoError(t, err)
	require.Equal(t, data, got)
	sealed, err = both.Seal(data)
	require.NoError(t, err)
	_, err = before.Open(sealed)
	require.ErrorIs(t, err, codec.ErrKey)
	require.EqualError(t, err, `no such key: the payload is encrypted with key "b", but the keyring has a; add that key to Keyring.Keys`)

	other := codec.AESGCM(codec.Keyring{Current: "b", Keys: map[string][]byte{"b": keyA[:16]}})
	_, err = other.Open(sealed)
	require.ErrorContains(t, err, `key "b": the payload is marked as encrypted, but it is damaged or was made with another key`)
}

func TestEachByteCounts(t *testing.T) {
	t.Parallel()
	c := codec.AESGCM(codec.Keyring{Current: "a", Keys: map[string][]byte{"a": keyA}})
	sealed, err := c.Seal([]byte("secret"))
	require.NoError(t, err)
	for i := range sealed {
		bad := bytes.Clone(sealed)
		bad[i] ^= 1
		_, err := c.Open(bad)
		require.Error(t, err, "byte %d", i)
		_, err = c.Open(sealed[:i])
		require.Error(t, err, "cut to %d bytes", i)
	}
	empty, err := c.Seal(nil)
	require.NoError(t, err)
	got, err := c.Open(empty)
	require.NoError(t, err)
	require.Equal(t, []byte{}, got)
}

func TestPlainPayloads(t *testing.T) {
	t.Parallel()
	ring := codec.Keyring{Current: "a", Keys: map[string][]byte{"a": keyA}}
	_, err := codec.AESGCM(ring).Open([]byte(`{}`))
	require.ErrorIs(t, err, codec.ErrPlain)
	ring.AllowPlain = true
	got, err := codec.AESGCM(ring).Open([]byte(`{}`))
	require.NoError(t, err)
	require.Equal(t, []byte(`{}`), got)
}

func TestWrongKeyrings(t *testing.T) {
	t.Parallel()
	for want, ring := range map[string]codec.Keyring{
		`the current key "" is not in the keyring, which has none`:    {},
		`the current key "new" is not in the keyring, which has a, b`: {Current: "new", Keys: map[string][]byte{"a": keyA, "b": keyB}},
		`key "a" has 5 bytes; AES takes 16, 24 or 32`:                 {Current: "a", Keys: map[string][]byte{"a": []byte("short")}},
		`a key's name has 1 to 255 bytes, not 0`:                      {Current: "", Keys: map[string][]byte{"": keyA}},
	} {
		c := codec.AESGCM(ring)
		_, err := c.Seal([]byte("x"))
		require.True(t, errors.Is(err, codec.ErrKey), "%v", err)
		require.ErrorContains(t, err, want)
		_, err = c.Open([]byte("x"))
		require.ErrorContains(t, err, want)
	}
}

func TestProtobuf(t *testing.T) {
	t.Parallel()
	c := protobuf.Codec{}
	data, err := c.Marshal(durationpb.New(0))
	require.NoError(t, err)
	require.NotNil(t, data, "an empty message is not an absent one")
	var held durationpb.Duration
	require.NoError(t, c.Unmarshal(data, &held))
	require.ErrorContains(t, c.Unmarshal([]byte("{}"), &held), "message google.protobuf.Duration")
	data, err = c.Marshal("text")
	require.NoError(t, err)
	require.Equal(t, `"text"`, string(data))
}

// Inputs are compared by their content, however they were compressed and sealed.
func TestDigests(t *testing.T) {
	t.Parallel()
	digest := func(c engine.Codec, v any) []byte {
		data, err := c.Marshal(v)
		require.NoError(t, err)
		d, err := c.(engine.Digester).Digest(data)
		require.NoError(t, err)
		return d
	}
	sealed := func(current string) engine.Codec {
		return codec.Chain(engine.JSON{}, zstd.New(), codec.AESGCM(codec.Keyring{Current: current, Keys: map[string][]byte{"a": keyA, "b": keyB}}))
	}
	plain, packed := engine.Codec(engine.JSON{}), codec.Chain(engine.JSON{}, zstd.New())
	one, two := order{"1", strings.Repeat("x", 1000)}, order{"2", ""}
	for _, c := range []engine.Codec{plain, packed, sealed("a"), protobuf.Codec{}} {
		require.Equal(t, digest(c, one), digest(c, one))
		require.NotEqual(t, digest(c, one), digest(c, two))
		require.Equal(t, digest(c, one)[:8], digest(c, two)[:8], "what says how it was made")
	}
	require.Equal(t, digest(plain, one), digest(packed, one), "compression changes nothing")
	require.NotEqual(t, digest(plain, one)[8:], digest(sealed("a"), one)[8:], "the hash of a secret has a key")
	require.NotEqual(t, digest(sealed("a"), one)[:8], digest(sealed("b"), one)[:8], "digests under different keys are not compared")
}

// A payload that a codec cannot open is distinguished from one that does not have the type.
func TestErrCodec(t *testing.T) {
	t.Parallel()
	ring := codec.Keyring{Current: "a", Keys: map[string][]byte{"a": keyA}}
	strict := codec.Chain(engine.JSON{}, codec.AESGCM(ring))
	sealed, err := strict.Marshal("text")
	require.NoError(t, err)
	other := codec.Chain(engine.JSON{}, codec.AESGCM(codec.Keyring{Current: "b", Keys: map[string][]byte{"b": keyB}}))
	packed, err := codec.Chain(engine.JSON{}, zstd.New(zstd.Above(0))).Marshal(strings.Repeat("text", 100))
	require.NoError(t, err)
	var s string
	var d *durationpb.Duration
	for name, err := range map[string]error{
		"another key":             other.Unmarshal(sealed, &s),
		"no encryption":           engine.JSON{}.Unmarshal(sealed, &s),
		"no encryption, protobuf": protobuf.Codec{}.Unmarshal(sealed, &d),
		"no compression":          engine.JSON{}.Unmarshal(packed, &s),
		"damage":                  strict.Unmarshal(sealed[:len(sealed)-1], &s),
		"plain":                   strict.Unmarshal([]byte(`"text"`), &s),
	} {
		require.ErrorIs(t, err, engine.ErrCodec, name)
		require.Equal(t, name == "plain", errors.Is(err, engine.ErrPlain), name)
	}
	_, err = codec.Chain(engine.JSON{}, codec.AESGCM(codec.Keyring{})).Marshal(1)
	require.ErrorIs(t, err, engine.ErrCodec)
	require.ErrorIs(t, err, codec.ErrKey)
	for _, err := range []error{strict.Unmarshal(sealed, new(int)), engine.JSON{}.Unmarshal([]byte(`"text"`), new(int))} {
		require.Error(t, err)
		require.NotErrorIs(t, err, engine.ErrCodec)
	}
}

func TestEncryption(t *testing.T) {
	t.Parallel()
	ring := codec.Keyring{Current: "a", Keys: map[string][]byte{"a": keyA}}
	require.Equal(t, engine.EncryptionNone, engine.EncryptionOf(engine.JSON{}))
	require.Equal(t, engine.EncryptionNone, engine.EncryptionOf(codec.Chain(engine.JSON{}, zstd.New())))
	require.Equal(t, engine.EncryptionRequired, engine.EncryptionOf(codec.Chain(engine.JSON{}, zstd.New(), codec.AESGCM(ring))))
	ring.AllowPlain = true
	require.Equal(t, engine.EncryptionOptional, engine.EncryptionOf(codec.Chain(engine.JSON{}, codec.AESGCM(ring))))
}
