package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/store"
)

// Encrypter is implemented by codecs that encrypt, as those of package codec may. Workers
// register it with their workflows, so that a payload that they would refuse is refused
// where it is made.
type Encrypter interface {
	Encryption() Encryption
}

// Encryption says what a codec does.
type Encryption string

// The values.
const (
	EncryptionNone     Encryption = ""         // it does not encrypt, or nothing is known of it
	EncryptionOptional Encryption = "optional" // it encrypts, and takes what is not encrypted, too
	EncryptionRequired Encryption = "required" // what is not encrypted it refuses
)

// EncryptionOf is what is known of a codec.
func EncryptionOf(c Codec) Encryption {
	if s, ok := c.(Encrypter); ok {
		return s.Encryption()
	}
	return EncryptionNone
}

// sealedMark begins what codec.AESGCM has encrypted.
var sealedMark = []byte{0, 'E'}

// plain says that a payload was not encrypted: it can be read as JSON.
func plain(payload []byte) bool { return len(payload) > 0 && json.Valid(payload) }

// checkStart refuses an input that the workers of a workflow would refuse.
func (e *Engine) checkStart(workflow string, input []byte) error {
	if !plain(input) || EncryptionOf(e.codec) != EncryptionNone {
		return nil
	}
	v, ok := e.base().known.Load(workflow)
	if !ok || v.(knownQueue).encryption != EncryptionRequired {
		return nil
	}
	return fmt.Errorf("start of workflow %q in namespace %q: %w, and its workers take encrypted payloads alone; give this engine their codec with engine.Encoding", workflow, e.namespace, ErrPlain)
}

// CheckPayload refuses, with an error that matches [ErrPlain], a payload for a run that is
// not encrypted where the run's workers insist on it: a signal, say, that somebody makes
// without the workers' codec. What the run's workflow is registered with decides, and the
// run's own input where that tells nothing. It reads both. [Engine.Signal] and
// [Engine.SetState] do not call it: they would cost twice as much.
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
		enc = registeredEncryption(found[0])
	}
	if enc == EncryptionRequired || enc == EncryptionNone && bytes.HasPrefix(run.Input, sealedMark) {
		return fmt.Errorf("run %s of workflow %q in namespace %q: %w, and the run's payloads are; send it by a program whose engine has the workers' codec", id, run.Workflow, e.namespace, ErrPlain)
	}
	return nil
}

func registeredEncryption(w store.Workflow) Encryption {
	var m workflowMeta
	_ = json.Unmarshal(w.Meta, &m) // what cannot be read says nothing
	return m.Encryption
}

// remember keeps what a workflow is registered with for a while.
func (e *Engine) remember(w store.Workflow) {
	e.base().known.Store(w.Name, knownQueue{queue: w.Queue, encryption: registeredEncryption(w), until: time.Now().Add(knownFor)})
}
