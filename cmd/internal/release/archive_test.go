package release

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"testing"
)

// entry is a file of an archive. A symbolic link has its target as content.
type entry struct {
	mode    fs.FileMode
	content []byte
}

// unpack returns the files of an archive or package by path.
func unpack(t *testing.T, file string) map[string]entry {
	t.Helper()
	content := []byte(read(t, file))
	var files map[string]entry
	var err error
	switch path.Ext(file) {
	case ".gz":
		files, err = readTarGz(content)
	case ".zip":
		files, err = readZip(content)
	case ".deb":
		files, err = readDeb(content)
	case ".rpm":
		files, err = readRPM(content)
	}
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", path.Base(file), len(files), err)
	}
	return files
}

func readTarGz(content []byte) (map[string]entry, error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	files, r := map[string]entry{}, tar.NewReader(unzipped)
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		} else if err != nil {
			return nil, err
		}
		body := []byte(header.Linkname)
		if header.Typeflag == tar.TypeReg {
			if body, err = io.ReadAll(r); err != nil {
				return nil, err
			}
		}
		if header.Typeflag != tar.TypeDir {
			files[strings.TrimPrefix(header.Name, "./")] = entry{header.FileInfo().Mode(), body}
		}
	}
}

func readZip(content []byte) (map[string]entry, error) {
	r, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return nil, err
	}
	files := map[string]entry{}
	for _, f := range r.File {
		body, err := fs.ReadFile(r, f.Name)
		if err != nil {
			return nil, err
		}
		files[f.Name] = entry{f.Mode(), body}
	}
	return files, nil
}

// readDeb reads the files of a Debian package: an ar archive around a tar archive.
func readDeb(content []byte) (map[string]entry, error) {
	const magic, headerSize = "!<arch>\n", 60
	rest, ok := bytes.CutPrefix(content, []byte(magic))
	if !ok {
		return nil, errors.New("not an ar archive")
	}
	for len(rest) >= headerSize {
		name := strings.TrimRight(string(rest[:16]), " /")
		size, err := strconv.Atoi(strings.TrimSpace(string(rest[48:58])))
		if err != nil || headerSize+size > len(rest) {
			return nil, fmt.Errorf("member %s has size %s", name, rest[48:58])
		}
		if name == "data.tar.gz" {
			return readTarGz(rest[headerSize : headerSize+size])
		}
		rest = rest[min(headerSize+size+size%2, len(rest)):]
	}
	return nil, errors.New("no data.tar.gz")
}

// readRPM reads the files of an RPM package: a lead, two headers and a cpio archive.
func readRPM(content []byte) (map[string]entry, error) {
	const lead, intro = 96, 16
	at := lead
	for i := range 2 {
		if len(content) < at+intro || !bytes.HasPrefix(content[at:], []byte{0x8e, 0xad, 0xe8}) {
			return nil, fmt.Errorf("header %d is not at %d", i, at)
		}
		entries, data := binary.BigEndian.Uint32(content[at+8:]), binary.BigEndian.Uint32(content[at+12:])
		at += intro + 16*int(entries) + int(data)
		if i == 0 {
			at = (at + 7) / 8 * 8 // the first header is padded
		}
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(content[min(at, len(content)):]))
	if err != nil {
		return nil, err
	}
	payload, err := io.ReadAll(unzipped)
	if err != nil {
		return nil, err
	}
	return readCpio(payload)
}

// readCpio reads an archive in the format newc: fields of eight hexadecimal digits,
// then the name and the content, both padded to four bytes.
func readCpio(payload []byte) (map[string]entry, error) {
	const headerSize = 110
	files := map[string]entry{}
	for at := 0; at+headerSize <= len(payload); {
		field := func(i int) int {
			n, err := strconv.ParseUint(string(payload[at+6+8*i:at+14+8*i]), 16, 32)
			if err != nil {
				return -1
			}
			return int(n)
		}
		mode, size, nameSize := field(1), field(6), field(11)
		body := (at + headerSize + nameSize + 3) / 4 * 4
		if mode < 0 || size < 0 || nameSize < 1 || body+size > len(payload) {
			return nil, fmt.Errorf("no valid cpio header at %d", at)
		}
		name := string(payload[at+headerSize : at+headerSize+nameSize-1])
		if name == "TRAILER!!!" {
			return files, nil
		}
		if kind := mode & 0o170000; kind != 0o040000 {
			m := fs.FileMode(mode & 0o777)
			if kind == 0o120000 {
				m |= fs.ModeSymlink
			}
			files[strings.TrimLeft(name, "./")] = entry{m, payload[body : body+size]}
		}
		at = (body + size + 3) / 4 * 4
	}
	return nil, errors.New("the cpio archive has no end")
}
