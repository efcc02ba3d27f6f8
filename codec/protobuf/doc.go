// Package protobuf encodes payloads that are messages of Protocol Buffers in their wire
// format, and all other payloads as JSON or with another codec.
//
//	eng := engine.New(st, engine.PayloadCodec(protobuf.Codec{}))
//
// Workflows, steps and signals then take and return pointers to generated messages:
//
//	var Fulfil = workflow.New("fulfil-order", func(ctx workflow.Context, o *shop.Order) (*shop.Receipt, error) { ... })
//
// To compress or encrypt the messages as well, give [Codec] to codec.Chain.
package protobuf
