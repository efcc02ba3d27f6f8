// Package zstd compresses payloads with Zstandard (RFC 8878).
//
//	eng := engine.New(st, engine.PayloadCodec(codec.Chain(engine.JSON{}, zstd.New())))
//
// [New] is a transform for [codec.Chain]. Put it before encryption: encrypted bytes do not
// become smaller. Short payloads, and those that do not become smaller, are stored as they
// are; [Above] sets how short. Package codec says how to change the codec of a program that
// has runs.
package zstd
