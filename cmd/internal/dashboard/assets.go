package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"time"

	"github.com/zeroae/zae-limiter-go/httplimit"
)

//go:embed assets/*
var files embed.FS

// asset is a file of the page.
type asset struct {
	content     []byte
	kind, etag  string
	displayName string
}

// assetTypes are the content types of files by extension.
var assetTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".svg":  "image/svg+xml",
}

// readAssets returns the files by path; "/" is the page.
func readAssets(from fs.ReadFileFS) (map[string]*asset, error) {
	entries, err := fs.ReadDir(from, "assets")
	if err != nil {
		return nil, err
	}

	all := map[string]*asset{}
	for _, e := range entries {
		// Every answer has the field nosniff, so a browser would not use a file
		// without its content type.
		kind := assetTypes[path.Ext(e.Name())]
		if kind == "" {
			return nil, fmt.Errorf("dashboard: asset %s: its extension has no content type", e.Name())
		}

		content, err := from.ReadFile("assets/" + e.Name())
		if err != nil {
			return nil, err
		}

		sum := sha256.Sum256(content)
		at := "/" + e.Name()
		if e.Name() == "index.html" {
			at = "/"
		}
		all[at] = &asset{content, kind, `"` + hex.EncodeToString(sum[:12]) + `"`, e.Name()}
	}

	return all, nil
}

// serve answers with the file, or with 304 if the browser has it.
func (a *asset) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		(&httplimit.Problem{Status: http.StatusMethodNotAllowed}).ServeHTTP(w, r)
		return
	}

	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Etag", a.etag)
	// The browser keeps the file, asks again before each use, and gets 304.
	h.Set("Cache-Control", "no-cache")
	http.ServeContent(w, r, a.displayName, time.Time{}, bytes.NewReader(a.content))
}
