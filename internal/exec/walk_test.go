package exec_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The walk of a step in docs/architecture.md names functions and their files. Each of them
// must be there.
func TestWalkNamesWhatExists(t *testing.T) {
	doc, err := os.ReadFile("../../docs/architecture.md")
	require.NoError(t, err)
	_, walk, ok := strings.Cut(string(doc), "## The walk of a step\n")
	require.True(t, ok, "docs/architecture.md has no walk of a step")
	walk, _, _ = strings.Cut(walk, "\n## ")
	places := regexp.MustCompile("`([A-Za-z.]+)`\\**(?: \\(|, )`([a-z_/]+\\.go)`").FindAllStringSubmatch(walk, -1)
	require.Greater(t, len(places), 15)
	for _, place := range places {
		name, file := place[1], place[2]
		if !strings.Contains(file, "/") {
			file = "internal/exec/" + file
		}
		source, err := os.ReadFile(filepath.Join("../..", filepath.FromSlash(file)))
		require.NoError(t, err, "the file of %s", name)
		function := regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + name[strings.LastIndex(name, ".")+1:] + `[\[(]`)
		require.Regexp(t, function, string(source), "%s is not in %s", name, file)
	}
}
