package zstd

import (
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/pawlhq/pawl/codec"
)

// Option configures [New].
type Option func(*transform)

// Above sets the size in bytes from which payloads are compressed. n must not be negative; with 0 all
// payloads are compressed that become smaller. The default is 1024.
func Above(n int) Option { return func(t *transform) { t.above = n } }

// MaxSize sets how many bytes a payload may grow to when it is read. It protects against
// payloads that were made to exhaust the reader's memory: a larger one is an error. n must be above 0.
// The default is 64 MB.
func MaxSize(n int) Option { return func(t *transform) { t.most = n } }

// New returns a transform that compresses payloads if that makes them smaller. Others are left as they
// are. It is safe for concurrent use. If an option is out of range, each Seal and Open fails.
func New(opts ...Option) codec.Transform {
	t := &transform{above: 1024, most: 64 << 20}
	for _, o := range opts {
		o(t)
	}
	if t.above < 0 || t.most <= 0 {
		t.err = fmt.Errorf("zstd: a threshold of %d bytes and a maximum of %d bytes: both must be positive", t.above, t.most)
		return t
	}
	if t.encoder, t.err = zstd.NewWriter(nil); t.err == nil {
		t.decoder, t.err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(uint64(t.most)))
	}
	return t
}

type transform struct {
	above, most int
	encoder     *zstd.Encoder
	decoder     *zstd.Decoder
	err         error
}

var mark = codec.Mark('Z')

// Seal implements [codec.Transform].
func (t *transform) Seal(data []byte) ([]byte, error) {
	if t.err != nil {
		return nil, t.err
	}
	marked := len(data) > 0 && data[0] == 0 // it could be taken for what this transform has made
	if len(data) < t.above && !marked {
		return data, nil
	}
	out := t.encoder.EncodeAll(data, mark[:])
	if len(out) >= len(data) && !marked {
		return data, nil
	}
	return out, nil
}

// Open implements [codec.Transform].
func (t *transform) Open(sealed []byte) ([]byte, error) {
	if t.err != nil {
		return nil, t.err
	}
	if len(sealed) < len(mark) || [2]byte(sealed) != mark {
		return sealed, nil
	}
	data, err := t.decoder.DecodeAll(sealed[len(mark):], []byte{})
	if err != nil {
		return nil, fmt.Errorf("the payload is marked as compressed but cannot be decompressed to at most %d bytes: %w", t.most, err)
	}
	return data, nil
}
