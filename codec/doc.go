// Package codec encodes payloads in other ways than plain JSON: compressed (package
// codec/zstd), encrypted ([AESGCM]), or as Protocol Buffers (package codec/protobuf). The
// store sees only the encoded bytes.
//
//	keys := codec.Keyring{Current: "2026-11", Keys: map[string][]byte{"2026-11": key}}
//	sealed := codec.Chain(engine.JSON{}, zstd.New(), codec.AESGCM(keys))
//	eng := engine.New(st, engine.PayloadCodec(sealed))
//
// Payloads are inputs, outputs, results of steps, signals and state values. Names, external
// ids, state keys and the texts of errors are not payloads: they are stored as they are.
// Limits on payloads count the encoded bytes.
//
// # What to use
//
//   - [Chain] combines a codec that encodes values with transforms of the encoded bytes, which are
//     applied in order.
//   - [AESGCM] is the transform that encrypts. [Keyring] holds its keys and says how to
//     rotate them.
//   - [Transform] is for transforms of your own. Their output begins with a [Mark].
//
// # Changing the codec
//
// All engines and workers of a namespace need the same codec. What a [Transform] writes
// begins with a mark, so that payloads from before the transform was added can still be
// read ([AESGCM] reads them if Keyring.AllowPlain is set). Give a new transform to every
// program first, and never remove one.
//
// A worker whose codec cannot read a payload does not fail the run. It gives the run back,
// for a worker that can.
//
// # Further reading
//
// [engine.Codec] is the interface of a codec; the section on encryption in docs/operations.md
// describes keys in production.
package codec
