package infra

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
)

// Package is the code of the functions: a zip with one executable, bootstrap,
// that serves both.
type Package struct {
	Zip          []byte
	SHA256       string // of the zip, in hexadecimal digits
	Architecture string // ARM64 or X8664
	Source       string // where the executable comes from, for people
}

// PackageOptions are those of [NewPackage]. The zero value of a field is its
// default.
type PackageOptions struct {
	Architecture string // ARM64 or X8664; default [ArchitectureAtHand] of Zip
	// Zip is the path of a package that is taken as it is. Default: the running
	// program is packed if it is zae-limiter, linked statically, for Linux and
	// the architecture; else one is built with Go.
	Zip string
	// Version is that of the program to build; default: of the module as it is
	// compiled into this program.
	Version string
	// NoBuild returns a package without code where it would have to be built.
	NoBuild bool
	// Building is that of [Options].
	Building func(architecture string) (done func(error))
}

// ArchitectureAtHand returns the architecture of the code that is at hand: that of
// the zip if one is named, else that of the running program if it can be packed.
// It is ARM64 where the code has to be built, and where the zip is none.
func ArchitectureAtHand(zip string) string {
	for _, architecture := range []string{ARM64, X8664} {
		var err error
		if zip != "" {
			err = checkZip(zip, architecture)
		} else {
			_, err = runningProgram(architecture)
		}
		if err == nil {
			return architecture
		}
	}
	return ARM64
}

const (
	bootstrap = "bootstrap" // what the runtime starts
	maxBytes  = 250 << 20   // unpacked, by the service's rule
)

// NewPackage makes the code of the functions. The same program gives the same
// bytes, wherever and whenever it is packed.
//
// Errors: *limiter.InvalidError for the options and for a zip that cannot work;
// an error that names the ways to get a package when there is none; what the Go
// toolchain printed.
func NewPackage(ctx context.Context, opts *PackageOptions) (*Package, error) {
	var o PackageOptions
	if opts != nil {
		o = *opts
	}
	o.Version = cmp.Or(o.Version, programVersion())
	if o.Architecture == "" {
		o.Architecture = ArchitectureAtHand(o.Zip)
	}
	if err := checkArchitecture(o.Architecture); err != nil {
		return nil, err
	}
	if o.Zip != "" {
		return readPackage(o.Zip, o.Architecture)
	}
	running, notThis := runningProgram(o.Architecture)
	if notThis == nil {
		return pack(running, o.Architecture, "the running program")
	}
	get := build
	if o.NoBuild {
		get = prepare
	}
	p, err := get(ctx, toolchain{origin: origin()}, o)
	if err != nil && ctx.Err() == nil {
		return nil, noPackage(o.Architecture, notThis, err)
	}
	return p, err
}

func noPackage(architecture string, notThis, notBuilt error) error {
	or := ""
	for _, other := range []string{ARM64, X8664} {
		if _, err := runningProgram(other); err == nil {
			or = ", or choose architecture " + other + ", which this program is for"
		}
	}
	return fmt.Errorf("no code for functions on %s; run a release of zae-limiter for Linux on that architecture, or have Go at hand to build it, or name a zip that zae-limiter lambda-export made%s: %w, and %w",
		architecture, or, notThis, notBuilt)
}

// pack makes the zip of an executable.
func pack(program []byte, architecture, source string) (*Package, error) {
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	header := &zip.FileHeader{Name: bootstrap, Method: zip.Deflate, Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)}
	header.SetMode(0o755)
	entry, err := w.CreateHeader(header)
	if err != nil {
		return nil, err
	}
	if _, err := entry.Write(program); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return newPackage(buf.Bytes(), architecture, source), nil
}

func newPackage(zipped []byte, architecture, source string) *Package {
	sum := sha256.Sum256(zipped)
	return &Package{Zip: zipped, SHA256: hex.EncodeToString(sum[:]), Architecture: architecture, Source: source}
}

// checkZip takes no zip at all, and one for any architecture if none is said.
func checkZip(path, architecture string) error {
	if path == "" {
		return nil
	}
	_, err := readPackage(path, architecture)
	return err
}

// readPackage takes a zip as it is, once it was looked at.
func readPackage(path, architecture string) (*Package, error) {
	refuse := func(reason string) (*Package, error) { return nil, invalid("zip", path, reason) }
	content, err := os.ReadFile(path)
	if err != nil {
		return refuse("cannot be read: " + plainPathError(err))
	}
	r, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return refuse("is no zip")
	}
	for _, f := range r.File {
		if f.Name != bootstrap {
			continue
		}
		if f.Mode()&0o111 == 0 {
			return refuse("has a bootstrap that is not executable; its mode has to be 0755")
		}
		program, err := unzip(f)
		if err != nil {
			return refuse("has a bootstrap that cannot be read: " + err.Error())
		}
		if err := checkProgram(program, architecture); err != nil {
			return refuse("has a bootstrap that cannot run: " + err.Error())
		}
		if info, err := buildinfo.Read(bytes.NewReader(program)); err == nil && info.Path != mainPackage { // others may have left it out
			return refuse("has a bootstrap that is " + info.Path + ", not zae-limiter; zae-limiter lambda-export makes one that is")
		}
		return newPackage(content, architecture, path), nil
	}
	return refuse("has no file bootstrap at its root; zae-limiter lambda-export makes one that has")
}

// plainPathError leaves out the path, which is told beside it.
func plainPathError(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return strings.ToLower(err.Error())
}

func unzip(f *zip.File) (content []byte, err error) {
	if f.UncompressedSize64 > maxBytes {
		return nil, fmt.Errorf("it is larger than %d MB", maxBytes>>20)
	}
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	var buf bytes.Buffer
	_, err = buf.ReadFrom(r)
	return buf.Bytes(), err
}
