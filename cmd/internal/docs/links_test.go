package docs

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const repository = "https://github.com/zeroae/zae-limiter-go"

// inRepository matches links from the site to files that it does not have.
var inRepository = regexp.MustCompile(`^` + regexp.QuoteMeta(repository) + `/(blob|tree)/main/([^#]*)`)

// TestLinks checks that the files and headings of all links exist.
func TestLinks(t *testing.T) {
	all := pages(t)
	byPath := map[string]*Page{}
	for _, p := range all {
		byPath[p.Path] = p
	}
	checked := 0
	for _, p := range all {
		for _, l := range p.Links {
			checked++
			if problem := follow(byPath, p, l.Target); problem != "" {
				t.Errorf("%s:%d: %s: %s", p.Path, l.Line, l.Target, problem)
			}
		}
	}
	if checked < 200 {
		t.Errorf("only %d links were found", checked)
	}
}

// follow returns what is wrong with a link, or "".
func follow(pages map[string]*Page, from *Page, target string) string {
	if m := inRepository.FindStringSubmatch(target); m != nil {
		info, err := os.Stat(filepath.Join(root, filepath.FromSlash(m[2])))
		switch {
		case err != nil:
			return "there is no such file"
		case info.IsDir() != (m[1] == "tree"):
			return "a file needs blob, and a folder tree"
		case strings.HasPrefix(m[2], "docs/") && strings.HasSuffix(m[2], ".md"):
			return "the site has the page: link to it by its relative path"
		}
		return ""
	}
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return ""
	}
	file, anchor, _ := strings.Cut(target, "#")
	name := from.Path
	if file != "" {
		name = path.Join(path.Dir(from.Path), file)
		info, err := os.Stat(filepath.Join(root, filepath.FromSlash(name)))
		switch {
		case err != nil:
			return "there is no such file"
		case inSite(from) && (!strings.HasPrefix(name, "docs/") || info.IsDir()):
			return "the site does not have it: use " + repository + "/blob/main/..., or tree/main for a folder"
		}
	}
	if anchor == "" {
		return ""
	}
	page := pages[name]
	if page == nil || !slices.ContainsFunc(page.Headings, func(h Heading) bool { return h.Anchor == anchor }) {
		return "there is no such heading"
	}
	return ""
}

// TestNavigationListsEveryPage compares nav in mkdocs.yml with the pages.
func TestNavigationListsEveryPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "mkdocs.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Nav yaml.Node `yaml:"nav"`
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	var listed []string
	var collect func(n *yaml.Node)
	collect = func(n *yaml.Node) {
		for i, c := range n.Content {
			if n.Kind == yaml.MappingNode && i%2 == 0 {
				continue // a title
			}
			if c.Kind == yaml.ScalarNode {
				listed = append(listed, "docs/"+c.Value)
			}
			collect(c)
		}
	}
	collect(&config.Nav)
	for _, p := range pages(t) {
		if !inSite(p) {
			continue
		}
		i := slices.Index(listed, p.Path)
		if i < 0 {
			t.Errorf("%s is not in nav: add it to mkdocs.yml", p.Path)
			continue
		}
		listed = slices.Delete(listed, i, i+1)
	}
	for _, name := range listed {
		t.Errorf("nav in mkdocs.yml lists %s twice, or it does not exist", name)
	}
}
