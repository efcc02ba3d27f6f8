package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"time"
)

// htmx is version 4.0.1 from npm, unchanged, under the license beside it.
//
//go:embed assets
var assetFiles embed.FS

//go:embed all:templates
var templateFiles embed.FS

// An asset is a file that browsers may keep for ever, because its address has its hash.
type asset struct {
	name, tag string
	content   []byte
}

var assets = loadAssets()

func loadAssets() map[string]asset {
	list, err := fs.ReadDir(assetFiles, "assets")
	if err != nil {
		panic(err)
	}
	all := map[string]asset{}
	for _, f := range list {
		content, err := assetFiles.ReadFile("assets/" + f.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(content)
		all[f.Name()] = asset{f.Name(), hex.EncodeToString(sum[:6]), content}
	}
	return all
}

func serveAsset(w http.ResponseWriter, r *http.Request) {
	a, ok := assets[r.PathValue("name")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	if r.URL.Query().Get("v") == a.tag {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		w.Header().Set("Cache-Control", "no-cache")
	}
	w.Header().Set("ETag", `"`+a.tag+`"`)
	http.ServeContent(w, r, a.name, time.Time{}, bytes.NewReader(a.content))
}
