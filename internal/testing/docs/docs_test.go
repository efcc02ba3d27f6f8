// Package docs tests the repository's Markdown files.
package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const root = "../../.."

// TestLinks checks that every relative link of every Markdown file leads to an existing file, and
// that its anchor is a heading there.
func TestLinks(t *testing.T) {
	files := markdown(t)
	if len(files) < 10 {
		t.Fatalf("found %d Markdown files: %v", len(files), files)
	}
	links := 0
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range linksOf(string(text)) {
			links++
			if err := resolve(root, file, link); err != nil {
				t.Errorf("%s: link to %q: %v", file, link, err)
			}
		}
	}
	if links < 50 {
		t.Errorf("found only %d links", links)
	}
}

// TestIndex checks that docs/README.md names every page of docs.
func TestIndex(t *testing.T) {
	index, err := os.ReadFile(filepath.Join(root, "docs", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	links := linksOf(string(index))
	for _, file := range markdown(t) {
		if name, ok := strings.CutPrefix(file, "docs/"); ok && name != "README.md" && !slices.Contains(links, name) {
			t.Errorf("docs/README.md has no link to %s", name)
		}
	}
}

func TestResolveFindsFaults(t *testing.T) {
	dir := t.TempDir()
	page := "# A title, with `code` & more\n\n## Twice\n\n## Twice\n\n```\n# no heading\n```\n[x](other.md) `[y](none.md)`\n```go\na[i](j)\n```\n![z](z.svg \"title\")\n"
	for name, text := range map[string]string{"page.md": page, "other.md": "# Other\n", "z.svg": "<svg/>"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := linksOf(page), []string{"other.md", "z.svg"}; !slices.Equal(got, want) {
		t.Errorf("links of the page are %q, want %q", got, want)
	}
	for link, ok := range map[string]bool{
		"other.md": true, "other.md#other": true, "#twice": true, "#twice-1": true, "page.md#a-title-with-code--more": true, "z.svg": true, ".": true,
		"none.md": false, "#thrice": false, "other.md#twice": false, "#no-heading": false, "#twice-2": false, "z.svg#a": false,
	} {
		if err := resolve(dir, "page.md", link); (err == nil) != ok {
			t.Errorf("link to %q: %v; want it to resolve: %v", link, err, ok)
		}
	}
}

// markdown lists the Markdown files of the repository.
func markdown(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case filepath.Ext(path) == ".md":
			file, err := filepath.Rel(root, path)
			files = append(files, filepath.ToSlash(file))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

var (
	inlineCode = regexp.MustCompile("`[^`\n]*`")
	inlineLink = regexp.MustCompile(`\]\(([^()\s]+)(?:\s+"[^"]*")?\)`)
	scheme     = regexp.MustCompile(`^[a-z]+:`)
)

// linksOf returns the relative links of a page, those in code excluded.
func linksOf(page string) (links []string) {
	text := inlineCode.ReplaceAllString(strings.Join(prose(page), "\n"), "")
	for _, m := range inlineLink.FindAllStringSubmatch(text, -1) {
		if !scheme.MatchString(m[1]) {
			links = append(links, m[1])
		}
	}
	return links
}

// prose returns the lines of a page outside code blocks.
func prose(page string) (lines []string) {
	fenced := false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			continue
		}
		if !fenced {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}

// resolve checks a link of the page file, which lies below dir.
func resolve(dir, file, link string) error {
	path, anchor, anchored := strings.Cut(link, "#")
	target := filepath.Join(dir, filepath.FromSlash(file))
	if path != "" {
		target = filepath.Join(filepath.Dir(target), filepath.FromSlash(path))
	}
	if _, err := os.Stat(target); err != nil || !anchored {
		return err
	}
	if filepath.Ext(target) != ".md" {
		return fmt.Errorf("%s is no Markdown file and has no anchors", path)
	}
	page, err := os.ReadFile(target)
	if err != nil {
		return err
	}
	if known := anchors(string(page)); !slices.Contains(known, anchor) {
		return fmt.Errorf("no heading has the anchor #%s; there are %v", anchor, known)
	}
	return nil
}

// anchors returns the anchors of a page's headings, as GitHub makes them.
func anchors(page string) (list []string) {
	uses := map[string]int{}
	for _, line := range prose(page) {
		title := strings.TrimLeft(line, "#")
		if level := len(line) - len(title); level == 0 || level > 6 || !strings.HasPrefix(title, " ") {
			continue
		}
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(title))
		n := uses[anchor]
		uses[anchor]++
		if n > 0 {
			anchor = fmt.Sprintf("%s-%d", anchor, n)
		}
		list = append(list, anchor)
	}
	return list
}
