package store

import (
	"encoding/json"
	"testing"
)

// The JSON form of a failure omits empty fields, and distinguishes empty details from none (P12).
func TestFailureJSON(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		failure Failure
		want    string
	}{
		{Failure{Code: "error", Message: "went wrong"}, `{"code":"error","message":"went wrong"}`},
		{Failure{Code: "error", Details: []byte{}}, `{"code":"error","message":"","details":""}`},
		{Failure{Code: "error", Details: []byte("d")}, `{"code":"error","message":"","details":"ZA=="}`},
		{Failure{Code: "panic", Type: "T", Stack: "s", Permanent: true}, `{"code":"panic","message":"","type":"T","stack":"s","permanent":true}`},
	} {
		b, err := json.Marshal(tt.failure)
		if err != nil || string(b) != tt.want {
			t.Errorf("%+v: saw %s, %v; expected %s", tt.failure, b, err, tt.want)
		}
		var back Failure
		if err := json.Unmarshal(b, &back); err != nil || (back.Details == nil) != (tt.failure.Details == nil) || string(back.Details) != string(tt.failure.Details) {
			t.Errorf("%s: saw %+v, %v come back, expected %+v", b, back, err, tt.failure)
		}
	}
}
