package backend_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// excerpt is a piece of code in the guide, behind the name of the file that it is from.
var excerpt = regexp.MustCompile("(?s)<!-- examples/backend/(\\S+) -->\n```go\n(.*?)\n```\n")

// The guide shows the example as it is.
func TestGuideShowsTheExample(t *testing.T) {
	guide, err := os.ReadFile("../../docs/new-backend.md")
	if err != nil {
		t.Fatal(err)
	}
	found := excerpt.FindAllStringSubmatch(string(guide), -1)
	if len(found) == 0 {
		t.Fatal("docs/new-backend.md shows nothing of the example")
	}
	for _, m := range found {
		code, err := os.ReadFile(m[1])
		if err != nil {
			t.Error(err)
		} else if !strings.Contains(string(code), m[2]) {
			t.Errorf("docs/new-backend.md shows code of %s that is not there:\n%s", m[1], m[2])
		}
	}
}
