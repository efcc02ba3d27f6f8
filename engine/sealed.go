package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Encrypter is implemented by codecs that encrypt, such as those of package codec. Workers
// register it with their workflows, so that a payload that they would refuse is refused
// where it is made.
type Encrypter interface {
	// Encryption says what the codec does. Its answer does not change.
	Encryption() Encryption
}

// Encryption says what a codec does.
type Encryption string

// The values of [Encryption].
const (
	EncryptionNone     Encryption = ""         // it does not encrypt, or does not say
	EncryptionOptional Encryption = "optional" // it encrypts, and also takes payloads that are not encrypted
	EncryptionRequired Encryption = "required" // it encrypts, and refuses payloads that are not encrypted
)

// EncryptionOf returns what a codec says of itself: [EncryptionNone] if it is no
// [Encrypter].
func EncryptionOf(c Codec) Encryption {
	if s, ok := c.(Encrypter); ok {
		return s.Encryption()
	}
	return EncryptionNone
}

// sealedMark is the beginning of what codec.AESGCM has encrypted.
var sealedMark = []byte{0, 'E'}

// plain reports whether a payload is not encrypted: it can be read as JSON.
func plain(payload []byte) bool { return len(payload) > 0 && json.Valid(payload) }

// checkStart refuses an input that the workflow's workers would refuse.
func (e *Engine) checkStart(workflow string, input []byte) error {
	if !plain(input) || EncryptionOf(e.codec) != EncryptionNone {
		return nil
	}
	v, ok := e.base().known.Load(workflow)
	if !ok || v.(knownQueue).encryption != EncryptionRequired {
		return nil
	}
	return fmt.Errorf("start of workflow %q in namespace %q: %w, but its workers accept only encrypted payloads; set their codec on this engine with engine.PayloadCodec", workflow, e.namespace, ErrPlain)
}

// CheckPayload returns an error that matches [ErrPlain] if the payload is not encrypted and
// the workers of the run require it. Use it for example for a signal that is made without the
// workers' codec. The registration of the run's workflow decides or, if that says
// nothing, the run's own input. It reads both. [Engine.Signal] and [Engine.SetState] do not
// call it, because they would cost twice as much.
func (e *Engine) CheckPayload(ctx context.Context, id store.ID, payload []byte) error {
	if !plain(payload) || EncryptionOf(e.codec) != EncryptionNone {
		return nil
	}
	run, err := e.Get(ctx, id)
	if err != nil {
		return err
	}
	found, err := e.listWorkflow(ctx, run.Workflow)
	if err != nil {
		return err
	}
	var enc Encryption
	if len(found) > 0 {
		enc = registeredMeta(found[0]).Encryption
	}
	if enc == EncryptionRequired || enc == EncryptionNone && bytes.HasPrefix(run.Input, sealedMark) {
		return fmt.Errorf("run %s of workflow %q in namespace %q: %w, but the run's payloads are; send it from a program whose engine has the workers' codec", id, run.Workflow, e.namespace, ErrPlain)
	}
	return nil
}

func registeredMeta(w store.Workflow) (m workflowMeta) {
	_ = json.Unmarshal(w.Meta, &m) // unreadable metadata means nothing
	return m
}

// remember caches a workflow's registration for a while, and returns it.
func (e *Engine) remember(w store.Workflow) knownQueue {
	m := registeredMeta(w)
	k := knownQueue{queue: w.Queue, needs: m.Under, encryption: m.Encryption, until: time.Now().Add(knownFor)}
	e.base().known.Store(w.Name, k)
	return k
}
