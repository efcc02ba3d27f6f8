package conformance

import "testing"

func TestRandomOnTheModel(t *testing.T) {
	RunRandom(t, Harness{New: newModel})
}
