package wire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"

	"github.com/pawlhq/pawl/api/wire"
)

// A problem is an error. Its code is for programs, its text for people.
func ExampleProblem() {
	answer := `{"type": "urn:pawl:problem:not-found", "title": "not found", "status": 404, "code": "not-found", "detail": "no run has this id"}`
	var p wire.Problem
	if err := json.Unmarshal([]byte(answer), &p); err != nil {
		log.Fatal(err)
	}
	var err error = &p
	fmt.Println(err)
	var found *wire.Problem
	fmt.Println(errors.As(err, &found) && found.Code == wire.CodeNotFound)
	// Output:
	// no run has this id (404 not-found)
	// true
}

// A start is the body of POST /v1/runs.
func ExampleStart() {
	body, err := json.Marshal(wire.Start{Workflow: "greet", Input: []byte(`"Ann"`), ExternalID: "ann", Delay: "90s"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(body))
	// Output:
	// {"workflow":"greet","input":"Ann","external_id":"ann","delay":"90s"}
}
