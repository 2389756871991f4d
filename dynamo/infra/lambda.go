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

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/remedy"
)

// Package is the code of the functions: a zip with one executable, bootstrap, for
// both functions.
type Package struct {
	Zip          []byte
	SHA256       string // of the zip, in hexadecimal
	Architecture string // ARM64 or X8664
	Source       string // origin of the executable, for display
}

// PackageOptions configures [NewPackage]. The zero value of a field is its default.
type PackageOptions struct {
	Architecture string // ARM64 or X8664; default: DefaultArchitecture(Zip)
	// Zip is the path of an existing package. Default: the program
	// zae-limiter-function in the folder of the running program, if it is of the same
	// version and for the architecture; else one that is built with Go; else the
	// running program, if it is a statically linked zae-limiter for Linux and the
	// architecture.
	Zip string
	// Version is the version to build; default: the version of the module in the
	// running program.
	Version string
	// NoBuild makes NewPackage return a Package without a Zip, which names the
	// source, where it would otherwise build the code.
	NoBuild bool
	// Building is like the field of [Options].
	Building func(architecture string) (done func(error))
}

// DefaultArchitecture returns the architecture of the package at the path zip or, if
// zip is "", of the running program or zae-limiter-function beside it. It returns
// ARM64 if the zip is invalid, or if no program can be packed and the code must be
// built.
func DefaultArchitecture(zip string) string {
	for _, architecture := range []string{ARM64, X8664} {
		var err error
		if zip != "" {
			err = checkZip(zip, architecture)
		} else if _, err = programBeside(architecture); err != nil {
			_, err = runningProgram(architecture)
		}
		if err == nil {
			return architecture
		}
	}
	return ARM64
}

const (
	bootstrap = "bootstrap" // the name that the runtime starts
	maxBytes  = 250 << 20   // maximum of the service, unpacked
)

// NewPackage returns the code of the functions. It is reproducible: the same program
// gives the same bytes.
//
// It returns a *limiter.InvalidError if the options or the zip are invalid. If there
// is no package, the error lists the ways to get one and the output of the Go
// toolchain.
func NewPackage(ctx context.Context, opts *PackageOptions) (*Package, error) {
	var o PackageOptions
	if opts != nil {
		o = *opts
	}
	o.Version = cmp.Or(o.Version, programVersion())

	if o.Architecture == "" {
		o.Architecture = DefaultArchitecture(o.Zip)
	}

	if err := checkArchitecture(o.Architecture); err != nil {
		return nil, err
	}

	if o.Zip != "" {
		return readPackage(o.Zip, o.Architecture)
	}

	content, source, err := functionCode(ctx, toolchain{origin: origin()}, o)
	if err != nil {
		return nil, err
	}

	if content == nil {
		return &Package{Architecture: o.Architecture, Source: source}, nil
	}
	return pack(content, o.Architecture, source)
}

// functionCode returns the executable of the functions and where it is from. With
// NoBuild, it returns no executable where it would otherwise build one. A program
// that is built is smaller than the running program, which has commands and servers
// too and is the last choice.
func functionCode(ctx context.Context, t toolchain, o PackageOptions) (content []byte, source string, err error) {
	content, besideErr := programBeside(o.Architecture)
	if besideErr == nil {
		return content, functionProgram + " beside the running program", nil
	}

	if o.NoBuild {
		// NoBuild asks where the code would come from, without the minutes of a
		// build.
		source, err = t.planBuild(ctx, o.Version)
	} else {
		content, source, err = compile(ctx, t, o, functionProgram)
	}

	if err == nil || ctx.Err() != nil {
		return content, source, err
	}

	running, programErr := runningProgram(o.Architecture)
	if programErr == nil {
		return running, "the running program", nil
	}
	return nil, "", noPackageError(o.Architecture, programErr, err)
}

// noPackageError returns the error with the ways to get a package.
func noPackageError(architecture string, programErr, buildErr error) error {
	or := ""
	// Where this program itself fits another architecture, choosing that one is
	// the shortest way out.
	for _, other := range []string{ARM64, X8664} {
		if _, err := runningProgram(other); err == nil {
			or = ", or choose architecture " + other + ", which this program is for"
		}
	}
	export := &dynamo.Remedy{Call: remedy.NewPackage}
	return remedy.With(fmt.Errorf("no code for functions on %s; run a release of zae-limiter for Linux on that "+
		"architecture, or install Go to build it, or pass a zip that %v made%s: %w, and %w",
		architecture, export, or, programErr, buildErr), export)
}

// file is a file of a package.
type file struct {
	name    string // with slashes
	mode    fs.FileMode
	content []byte
}

// pack returns a package with an executable and other files.
func pack(program []byte, architecture, source string, others ...file) (*Package, error) {
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)

	for _, f := range append([]file{{bootstrap, 0o755, program}}, others...) {
		// The time is fixed, so that the same files give the same bytes and the
		// same hash. A zip cannot hold an earlier one.
		header := &zip.FileHeader{
			Name: f.name, Method: zip.Deflate, Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC),
		}
		header.SetMode(f.mode)

		entry, err := w.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := entry.Write(f.content); err != nil {
			return nil, err
		}
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

// checkZip validates a zip. It accepts an empty path, and any architecture if that
// is "".
func checkZip(path, architecture string) error {
	if path == "" {
		return nil
	}
	_, err := readPackage(path, architecture)
	return err
}

// readPackage reads and validates a zip.
func readPackage(path, architecture string) (*Package, error) {
	refuse := func(reason string, remedies ...*dynamo.Remedy) (*Package, error) {
		return nil, remedy.With(invalid("zip", path, reason), remedies...)
	}
	export := &dynamo.Remedy{Call: remedy.NewPackage}

	content, err := os.ReadFile(path)
	if err != nil {
		return refuse("cannot be read: " + pathErrorText(err))
	}

	r, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return refuse("is not a zip")
	}

	for _, f := range r.File {
		if f.Name != bootstrap {
			continue
		}
		if f.Mode()&0o111 == 0 {
			return refuse("has a bootstrap that is not executable; its mode must be 0755")
		}

		program, err := unzip(f)
		if err != nil {
			return refuse("has a bootstrap that cannot be read: " + err.Error())
		}

		if err := checkProgram(program, architecture); err != nil {
			return refuse("has a bootstrap that cannot run: " + err.Error())
		}

		// Build info is optional: tools that shrink a program may remove it.
		if info, err := buildinfo.Read(bytes.NewReader(program)); err == nil && info.Path != mainPackage &&
			info.Path != functionPackage {
			return refuse(
				"has a bootstrap that is "+info.Path+", not zae-limiter; "+export.Error()+" writes a valid one", export,
			)
		}
		return newPackage(content, architecture, path), nil
	}

	return refuse("has no file bootstrap at its root; "+export.Error()+" writes a valid one", export)
}

// pathErrorText returns the text of an error without the path.
func pathErrorText(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return strings.ToLower(err.Error())
}

// unzip returns the content of a file in a zip.
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
